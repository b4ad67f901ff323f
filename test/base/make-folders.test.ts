/** Folders that are created with their missing parents. */
import { mkdir, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { makeFolders } from '../../src/base/make-folders.js'

void t.test('missing parents are created with the mode, and an existing folder is no error', async (t) => {
  const folder = t.testdir()
  await makeFolders(join(folder, 'a/b/c'), 0o700)
  for (const path of ['a', 'a/b', 'a/b/c']) t.equal((await stat(join(folder, path))).mode & 0o777, 0o700)
  await makeFolders(join(folder, 'a/b'), 0o700)
  await symlink(join(folder, 'a'), join(folder, 'link'))
  await makeFolders(join(folder, 'link'), 0o700)
  await Promise.all(['x', 'y', 'z'].map((name) => makeFolders(join(folder, 'shared/parent', name), 0o700)))
  for (const name of ['x', 'y', 'z']) t.ok((await stat(join(folder, 'shared/parent', name))).isDirectory())
})

void t.test('a folder that cannot be made rejects with the error of the system', async (t) => {
  const folder = t.testdir()
  await writeFile(join(folder, 'file'), '')
  await t.rejects(makeFolders(join(folder, 'file'), 0o700), { code: 'EEXIST' })
  await t.rejects(makeFolders(join(folder, 'file/below/it'), 0o700), { code: 'ENOTDIR' })
  await symlink(join(folder, 'missing/target'), join(folder, 'dangling'))
  await t.rejects(makeFolders(join(folder, 'dangling/x'), 0o700), { code: 'EEXIST' })
  await mkdir(join(folder, 'x'))
  await t.rejects(makeFolders(join(folder, 'x', 'y'.repeat(300)), 0o700), { code: 'ENAMETOOLONG' })
})

const skip = process.platform === 'linux' ? false : 'only Linux has /proc'
void t.test('below a folder that can have none, it ends', { skip }, async (t) => {
  await t.rejects(makeFolders('/proc/none/x/y', 0o700), { code: 'ENOENT' })
})
