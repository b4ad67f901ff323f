/** The space that downloads by external programs take on the local disk. */
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { downloadFolders, folderFor, DownloadSpace } from '../../src/offline-downloads/temporary-folders.js'

const ids = ['a', 'b', 'c'].map((letter) => letter.repeat(22))
const full = { code: 'no_space', reason: /spool_size_limit/ }

interface Scene {
  readonly space: DownloadSpace
  readonly folders: readonly string[]
  readonly limit: (bytes: number) => void
}

/** Folders of three downloads. The first has no expiry. */
async function scene(t: Test): Promise<Scene> {
  const root = t.testdir()
  let limit = 1000
  return {
    space: new DownloadSpace({ folders: () => downloadFolders(root, ['aria2']), limit: () => limit }),
    folders: ids.map((id, index) => folderFor(root, 'aria2', id, index === 0)),
    limit: (bytes) => (limit = bytes),
  }
}

async function put(folder: string, name: string, bytes: number): Promise<void> {
  await mkdir(join(folder, 'sub'), { recursive: true })
  await writeFile(join(folder, name), Buffer.alloc(bytes))
}

void t.test('DownloadSpace counts retained files, and rejects new downloads beyond the limit', async (t) => {
  const { space, folders, limit } = await scene(t)
  const [kept = '', other = ''] = folders
  await space.assertSpace()
  await put(kept, 'film', 598)
  await put(kept, 'sub/film.aria2', 400)
  // A symlink in a cycle: it must neither be counted nor followed.
  await symlink('.', join(kept, 'sub', 'x'))
  await space.assertSpace().catch(() => t.fail('there is still space'))
  await put(other, 'rest', 2)
  await t.rejects(space.assertSpace(), full)
  await t.rejects(
    space.withClaim(folders[2] ?? '', async () => t.fail('the download began')),
    full,
  )
  limit(Infinity)
  await space.assertSpace()
  limit(1000)
  await rm(kept, { recursive: true })
  await space.assertSpace()
})

void t.test('DownloadSpace counts a running download with its claimed size', async (t) => {
  const { space, folders } = await scene(t)
  const [kept = '', one = '', other = ''] = folders
  await put(kept, 'film', 200)
  // Left by an earlier run of the same download.
  await put(one, 'part', 900)
  await space.withClaim(one, async (claimOne) => {
    claimOne(500)
    await space.withClaim(other, async (claimOther) => {
      claimOther(300)
      t.throws(() => claimOther(301), full)
      claimOther(100)
      claimOne(700)
      t.throws(() => claimOne(701), full)
      claimOne(10)
    })
  })
  await t.rejects(space.assertSpace(), full, 'after the end, the files on disk count')
})
