/** The contract of `pages()` and of `folderRevision()`. */
import { at, isEmptied, listed, makeFolder, namesIn, put, refuses, without, type Run } from './subject.js'

export async function listingTests(run: Run): Promise<void> {
  await run('a listing has the same entries as stat()', async (t, { driver }) => {
    await put(driver, '/file', 'hello')
    await put(driver, '/empty', '')
    await driver.mkdir(at('/folder'))
    await put(driver, '/folder/below', 'x')
    const entries = await listed(driver, '/')
    t.same(
      entries.map(({ name }) => name),
      ['empty', 'file', 'folder'],
    )
    for (const entry of entries) t.same(entry, await driver.stat(at(`/${entry.name}`)), entry.name)
    t.same(await namesIn(driver, '/folder'), ['below'])
  })

  await run(
    'an empty folder is listed as empty and remains, unless the driver has no empty folders',
    async (t, subject) => {
      const { driver, traits } = subject
      await driver.mkdir(at('/folder'))
      await isEmptied(t, subject, '/folder')
      await put(driver, '/folder/file', 'x')
      t.equal((await driver.stat(at('/folder'))).kind, 'folder')
      await driver.remove(at('/folder/file'))
      await isEmptied(t, subject, '/folder')
      if (traits.emptyFolders) {
        t.equal((await driver.stat(at('/folder'))).kind, 'folder')
        return
      }
      await refuses(t, () => driver.stat(at('/folder')), 'not_found', 'an empty folder')
      await put(driver, '/not/made/file', 'x')
      t.same(await namesIn(driver, '/'), ['not'], 'a file creates its folders')
      t.equal((await driver.stat(at('/not/made'))).kind, 'folder')
    },
  )

  await run('list() of a file rejects with not_folder before the first page', async (t, { driver }) => {
    await put(driver, '/file', 'hello')
    await refuses(t, () => driver.pages(at('/file'))[Symbol.asyncIterator]().next(), 'not_folder', 'list')
  })

  await run('10,000 entries are listed in pages, each once', async (t, { driver, many: count }) => {
    await driver.mkdir(at('/many'))
    const names = Array.from({ length: count }, (_, index) => `name-${index}`)
    for (let index = 0; index < count; index += 100) {
      await Promise.all(names.slice(index, index + 100).map((name) => put(driver, `/many/${name}`, '')))
    }
    const seen = new Set<string>()
    let pages = 0
    let total = 0
    for await (const page of driver.pages(at('/many'))) {
      pages++
      total += page.length
      t.ok(page.length <= 1000, 'a page has at most 1,000 entries')
      for (const { name } of page) seen.add(name)
    }
    t.equal(total, count)
    t.same(seen, new Set(names))
    t.ok(pages >= count / 1000)
    let first = 0
    for await (const page of driver.pages(at('/many'))) {
      first = page.length
      break
    }
    t.ok(first > 0, 'a listing can be ended early')
  })

  await run(
    'folderRevision() changes when a name is added or removed',
    async (t, subject) => {
      const { driver } = subject
      const revision = async () => driver.folderRevision?.(at('/folder'))
      await makeFolder(subject, '/folder')
      const seen = [await revision()]
      await put(driver, '/folder/one', 'x')
      seen.push(await revision())
      t.equal(await revision(), seen.at(-1), 'unchanged while the folder is')
      await put(driver, '/folder/two', 'x')
      seen.push(await revision())
      await driver.remove(at('/folder/one'))
      seen.push(await revision())
      t.equal(new Set(seen).size, seen.length, 'each revision differs')
      await refuses(t, async () => driver.folderRevision?.(at('/none')), 'not_found', 'a missing folder')
    },
    without('folderRevision'),
  )
}
