import { at, listed, namesIn, put, refuses, textAt, type Run } from './subject.js'

const strange = [
  '#', '%', '?', '+', '&', '=', ';', '*', '%41', '%2F', '%zz', 'a b', ' leading', 'trailing ', 'trailing.', '...',
  '.hidden', '..hidden', '-dash', '~', '$HOME', '"quoted"', "it's", '<tag>', '|pipe', 'a:b', 'é', 'ß', '世界', '🦀', 'أهلا',
  'NUL', 'con', 'a'.repeat(255), '世'.repeat(85), '__proto__', 'constructor',
] // prettier-ignore

export async function nameTests(run: Run): Promise<void> {
  await run('strange names come back as they are', async (t, { driver }) => {
    await driver.mkdir(at('/names'))
    for (const name of strange) {
      await put(driver, `/names/${name}`, name)
      t.equal((await driver.stat(at(`/names/${name}`))).name, name)
    }
    t.same(await namesIn(driver, '/names'), [...strange].sort())
    for (const name of strange) {
      t.equal(await textAt(driver, `/names/${name}`), name, name)
      await driver.remove(at(`/names/${name}`))
    }
    t.same(await listed(driver, '/names'), [])
  })

  await run('folders have strange names too', async (t, { driver }) => {
    for (const name of strange) {
      await driver.mkdir(at(`/${name}`))
      await put(driver, `/${name}/inside`, name)
    }
    t.same(await namesIn(driver, '/'), [...strange].sort())
    for (const name of strange) t.equal(await textAt(driver, `/${name}/inside`), name, name)
  })

  await run('names that differ in case are two files', async (t, { driver, traits }) => {
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

  await run('composed and decomposed names are two files', async (t, { driver, traits }) => {
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

  await run('a prefix of a name is not the name', async (t, { driver }) => {
    await put(driver, '/folder-more', 'x')
    await refuses(t, () => driver.stat(at('/folder')), 'not_found', 'stat')
    await driver.mkdir(at('/folder'))
    t.same(await listed(driver, '/folder'), [])
  })
}
