/** The contract for names: unusual characters, upper and lower case, and composed and decomposed forms. */
import type { Test } from 'tap'
import {
  at,
  isEmptied,
  listed,
  makeFolder,
  namesIn,
  put,
  refuses,
  source,
  textAt,
  type Run,
  type Subject,
} from './subject.js'

const strange = [
  ...['#', '%', '?', '+', '&', '=', ';', '*', '%41', '%2F', '%zz', 'a b', ' leading', 'trailing ', 'trailing.', '...'],
  ...['.hidden', '..hidden', '-dash', '~', '$HOME', '"quoted"', "it's", '<tag>', '|pipe', 'a:b'],
  ...['é', 'ß', '世界', '🦀', 'أهلا', 'NUL', 'con', 'a'.repeat(255), '世'.repeat(85), '__proto__', 'constructor'],
]

/** The names that the backend can store. The others must be rejected and leave nothing behind. */
async function keepable(t: Test, { driver, longestName, cannotKeep }: Subject): Promise<string[]> {
  const isKept = (name: string) => Buffer.byteLength(name) <= longestName && !cannotKeep(name)
  for (const name of strange.filter((name) => !isKept(name))) {
    await refuses(t, () => put(driver, `/${name}`, 'x'), 'invalid', 'a file with a name that cannot be stored')
    await refuses(t, () => driver.mkdir(at(`/${name}`)), 'invalid', 'a folder with a name that cannot be stored')
  }
  t.same(await listed(driver, '/'), [])
  return strange.filter(isKept)
}

export async function nameTests(run: Run): Promise<void> {
  await run('unusual names are listed unchanged', async (t, subject) => {
    const { driver } = subject
    const names = await keepable(t, subject)
    await driver.mkdir(at('/names'))
    for (const name of names) {
      await put(driver, `/names/${name}`, name)
      t.equal((await driver.stat(at(`/names/${name}`))).name, name)
    }
    t.same(await namesIn(driver, '/names'), names.sort())
    for (const name of names) {
      t.equal(await textAt(driver, `/names/${name}`), name, name)
      await driver.remove(at(`/names/${name}`))
    }
    await isEmptied(t, subject, '/names')
  })

  await run('folders may have unusual names', async (t, subject) => {
    const { driver } = subject
    const names = await keepable(t, subject)
    for (const name of names) {
      await driver.mkdir(at(`/${name}`))
      await put(driver, `/${name}/inside`, name)
    }
    t.same(await namesIn(driver, '/'), names.sort())
    for (const name of names) t.equal(await textAt(driver, `/${name}/inside`), name, name)
  })

  await run('names that differ in case are different files', async (t, { driver, traits }) => {
    if (!traits.caseSensitive) {
      t.pass('case', { skip: 'this driver takes them for one' })
      return
    }
    await put(driver, '/twin', 'small')
    await put(driver, '/TWIN', 'large')
    t.same(await namesIn(driver, '/'), ['TWIN', 'twin'])
    t.equal(await textAt(driver, '/twin'), 'small')
    await driver.remove(at('/TWIN'))
    t.same(await namesIn(driver, '/'), ['twin'])
  })

  await run('composed and decomposed names are different files', async (t, { driver, traits }) => {
    if (!traits.caseSensitive) {
      t.pass('form', { skip: 'this driver folds names' })
      return
    }
    await put(driver, '/caf\u00e9', 'composed')
    await put(driver, '/cafe\u0301', 'decomposed')
    t.equal(await textAt(driver, '/caf\u00e9'), 'composed')
    t.equal(await textAt(driver, '/cafe\u0301'), 'decomposed')
    t.equal((await namesIn(driver, '/')).length, 2)
  })

  await run('on a case-insensitive driver, another spelling is the same name', async (t, subject) => {
    const { driver, traits } = subject
    if (traits.caseSensitive) {
      t.pass('case', { skip: 'this driver tells them apart' })
      return
    }
    await driver.mkdir(at('/Folder'))
    await put(driver, '/Folder/caf\u00e9', 'one')
    for (const [spelling, name] of [
      ['/FOLDER', 'Folder'],
      ['/folder/CAF\u00c9', 'caf\u00e9'],
      ['/Folder/cafe\u0301', 'caf\u00e9'],
    ] as const) {
      t.equal((await driver.stat(at(spelling))).name, name, 'stat() returns the spelling of the backend')
    }
    t.equal(await textAt(driver, '/FOLDER/CAF\u00c9'), 'one')
    await refuses(t, () => driver.mkdir(at('/FOLDER')), 'exists', 'mkdir')
    await refuses(
      t,
      () => driver.write(at('/folder/CAF\u00c9'), source('two'), { createOnly: true }),
      'exists',
      'write',
    )
    await put(driver, '/folder/CAF\u00c9', 'two')
    t.same(await namesIn(driver, '/Folder'), ['caf\u00e9'])
    t.equal(await textAt(driver, '/Folder/caf\u00e9'), 'two')
    await driver.remove(at('/FOLDER/cafe\u0301'))
    await isEmptied(t, subject, '/folder')
  })

  await run('a prefix of a name is not the name', async (t, subject) => {
    const { driver, traits } = subject
    await put(driver, '/folder-more', 'x')
    await refuses(t, () => driver.stat(at('/folder')), 'not_found', 'stat')
    await makeFolder(subject, '/folder')
    t.same(await namesIn(driver, '/folder'), traits.emptyFolders ? [] : ['kept'])
  })
}
