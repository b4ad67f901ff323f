/** The options of Local: permissions of new folders, hidden files, sizes of folders, and the recycle bin. */
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { asPath } from '../../../src/base/path.js'
import { openLocal } from '../env.js'

async function folderOf(t: Test): Promise<string> {
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'tidegate-options-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

void t.test('new folders get the permission bits of mkdir_perm, less the umask', async (t) => {
  const folder = await folderOf(t)
  const before = process.umask(0o027)
  try {
    for (const [bits, mode] of [
      ['777', 0o750],
      ['0711', 0o710],
      ['700', 0o700],
    ] as const) {
      const driver = await openLocal(folder, { mkdir_perm: bits })
      await driver.mkdir?.(asPath(`/${bits}`))
      t.equal((await stat(join(folder, bits))).mode & 0o777, mode, bits)
    }
  } finally {
    process.umask(before)
  }
})

void t.test('show_hidden affects listings only', async (t) => {
  const folder = await folderOf(t)
  await writeFile(join(folder, '.hidden'), 'x')
  const driver = await openLocal(folder, { show_hidden: false })
  for await (const page of driver.pages(asPath('/'))) t.same(page, [])
  t.match(await driver.stat(asPath('/.hidden')), { name: '.hidden', size: 1 })
})

void t.test('directory_size: an abort ends the computation of a size', async (t) => {
  const folder = await folderOf(t)
  for (let n = 0; n < 50; n++) await mkdir(join(folder, `a/${n}/b`), { recursive: true })
  await writeFile(join(folder, 'a/1/b/file'), 'four')
  const driver = await openLocal(folder, { directory_size: true })
  t.equal((await driver.stat(asPath('/a'))).size, 4)
  for await (const page of driver.pages(asPath('/'))) t.match(page, [{ name: 'a', size: 4 }])
  const leaving = new AbortController()
  const left = t.rejects(driver.stat(asPath('/a'), { signal: leaving.signal }), { code: 'aborted' })
  leaving.abort()
  await left
})

void t.test('Local rejects folders of its own that cannot be made', async (t) => {
  const folder = await folderOf(t)
  await writeFile(join(folder, 'file'), '')
  for (const path of ['/proc/none/folder', join(folder, 'file', 'folder')]) {
    const wrong = { code: 'invalid', message: new RegExp(`cannot create .* ${path}`) }
    await t.rejects(openLocal(folder, { recycle_bin_path: path }), wrong)
    await t.rejects(openLocal(folder, { thumbnail: true, thumb_cache_folder: path }), wrong)
  }
})

void t.test('Local deletes permanently unless recycle_bin_path names a folder', async (t) => {
  const folder = await folderOf(t)
  const bin = await folderOf(t)
  for (const option of [bin, '', 'delete permanently']) {
    await mkdir(join(folder, 'a'), { recursive: true })
    await writeFile(join(folder, 'a/file'), option)
    const driver = await openLocal(folder, { recycle_bin_path: option })
    await driver.remove?.(asPath('/a/file'))
    await t.rejects(stat(join(folder, 'a/file')))
    await driver.removeTree?.(asPath('/a'))
    await t.rejects(stat(join(folder, 'a')))
  }
  t.equal((await stat(join(bin, 'a/file'))).size, bin.length, 'under its path')
})

void t.test('what two storages remove at once under one name is all in the recycle bin that they share', async (t) => {
  const bin = await folderOf(t)
  const folders = [await folderOf(t), await folderOf(t)]
  const drivers = await Promise.all(folders.map((folder) => openLocal(folder, { recycle_bin_path: bin })))
  const rounds = 20
  for (let round = 0; round < rounds; round++) {
    await Promise.all(folders.map((folder, index) => writeFile(join(folder, 'file'), `${round}-${index}`)))
    await Promise.all(drivers.map(async (driver) => driver.remove?.(asPath('/file'))))
  }
  const contents = await Promise.all((await readdir(bin)).map((name) => readFile(join(bin, name), 'utf8')))
  t.equal(new Set(contents).size, 2 * rounds)
})
