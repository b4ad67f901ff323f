/** What a driver shows after another program has changed the backend: entries that were replaced, and strange names. */
import { at, bytesAt, makeFolder, namesIn, put, refuses, textAt, type Run } from './subject.js'

export async function elsewhereTests(run: Run): Promise<void> {
  await run('a file that another program has replaced is read anew', async (t, { driver, elsewhere }) => {
    if (!elsewhere) {
      t.pass('another program', { skip: 'the test has no way to change the backend by another program' })
      return
    }
    await driver.mkdir(at('/folder'))
    await put(driver, '/folder/file', 'old')
    t.equal(await textAt(driver, '/folder/file'), 'old')
    await elsewhere.replace('/folder/file', 'the new content')
    t.equal(await textAt(driver, '/folder/file'), 'the new content')
    t.equal((await driver.stat(at('/folder/file'))).size, 15)
    await elsewhere.replace('/folder/file', 'another')
    await driver.remove(at('/folder/file'))
    t.same(await namesIn(driver, '/folder'), [])
  })

  await run('a folder that another program has replaced is walked anew', async (t, subject) => {
    const { driver, elsewhere } = subject
    if (!elsewhere) return
    for (const folder of ['/a', '/a/b']) await makeFolder(subject, folder)
    await put(driver, '/a/b/file', 'old')
    t.equal(await textAt(driver, '/a/b/file'), 'old')
    await elsewhere.replaceFolder('/a', { 'b/file': 'the new content', 'b/other': 'x' })
    t.equal(await textAt(driver, '/a/b/file'), 'the new content')
    t.same(await namesIn(driver, '/a/b'), ['file', 'other'])
    await elsewhere.replaceFolder('/a', { 'b/file': 'once more' })
    await put(driver, '/a/b/new', 'new')
    t.same(await namesIn(driver, '/a/b'), ['file', 'new'], 'a change reaches the new folder')
    await elsewhere.replaceFolder('/a', { kept: '' })
    await refuses(t, () => driver.stat(at('/a/b/file')), 'not_found', 'a path that is gone')
    await refuses(t, () => driver.read(at('/a/b/file')), 'not_found', 'a path that is gone')
    t.same(await namesIn(driver, '/a'), ['kept'])
  })

  await run(
    'entries of one name are all shown, and each is reached by its own name',
    async (t, { driver, elsewhere }) => {
      if (!elsewhere) return
      await put(driver, '/a.txt', 'first')
      const isNameFree = await elsewhere.create('/', 'a.txt', 'second').then(
        () => true,
        () => false,
      )
      const names = await namesIn(driver, '/')
      if (!isNameFree || names.length === 1) {
        t.same(names, ['a.txt'], 'the backend has one entry of each name')
        return
      }
      const other = names.find((name) => name !== 'a.txt') ?? ''
      t.match(other, /^a~[0-9a-f]{8}\.txt$/)
      t.equal(await textAt(driver, '/a.txt'), 'second', 'the newest has the name')
      t.equal(await textAt(driver, `/${other}`), 'first')
      t.same(await namesIn(driver, '/'), names, 'the names do not change')
      for (const name of names) t.equal((await driver.stat(at(`/${name}`))).name, name)
      await driver.remove(at('/a.txt'))
      t.equal(await textAt(driver, `/${other}`), 'first', 'its name is still good when it is the only one')
      await driver.remove(at(`/${other}`))
      t.same(await namesIn(driver, '/'), [])
    },
  )

  await run('names that no path can hold are shown in another form', async (t, { driver, elsewhere, cannotKeep }) => {
    if (!elsewhere) return
    const strange = ['a/b', 'a\\b', '.', '..', 'a\u201b2f;b'].filter((name) => !cannotKeep(name))
    for (const name of strange) await elsewhere.create('/', name, name)
    const names = await namesIn(driver, '/')
    t.equal(new Set(names).size, strange.length, 'all are shown')
    const contents = new Set<string>()
    for (const name of names) contents.add((await bytesAt(driver, `/${name}`)).toString())
    t.same(contents, new Set(strange), 'each is read by the name that is shown')
    for (const name of names) await driver.remove(at(`/${name}`))
    t.same(await namesIn(driver, '/'), [])
  })
}
