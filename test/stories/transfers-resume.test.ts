/**
 * The daemon is killed during the transfer of a large file, by a copy and by an upload as a task. After a restart it
 * resumes at the offset of the target: the file is complete, few bytes are read or written twice, and no temporary file
 * is left.
 */
import { randomBytes } from 'node:crypto'
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { startDaemon } from '../gateway.js'
import { filesBelow } from '../stored-files.js'
import { connect, ended } from './task-client.js'

const program = fileURLToPath(new URL('../servers/slow-daemon.js', import.meta.url))
const mebibyte = 1024 * 1024
const size = 40 * mebibyte
/** Maximum number of bytes between the source and the disk when the daemon is killed. */
const underway = 4 * mebibyte

/** Size of the single staged file in a folder, and the other files. */
async function stagedIn(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const [file] = entries.filter((entry) => entry.isFile() && entry.parentPath.includes('.tidegate-staging'))
  return file ? (await stat(join(file.parentPath, file.name))).size : 0
}

interface Passed {
  readonly offset: number
  readonly length: number
}

/** The ranges that were transferred in this direction, by the log of the daemon. */
async function passed(dataFolder: string, way: 'read' | 'written'): Promise<Passed[]> {
  const lines = (await readFile(join(dataFolder, 'bytes.log'), 'utf8')).trim().split('\n')
  const words = lines.map((line) => line.split(' ')).filter(([word]) => word === way)
  return words.map(([, offset, length]) => ({ offset: Number(offset), length: Number(length) }))
}

for (const [kind, way, target] of [
  ['copy', 'read', 'quick'],
  ['upload', 'written', 'slow'],
] as const) {
  void t.test(`the transfer of a large file is resumed after a kill: ${kind}`, async (t) => {
    const disks = t.testdir({ slow: {}, quick: {} })
    const content = randomBytes(size)
    let daemon = await startDaemon(t, { program })
    let client = await connect(daemon)
    for (const [name, driver] of [
      ['slow', 'Slow'],
      ['quick', 'Local'],
    ] as const) {
      const addition = JSON.stringify({ root_folder_path: join(disks, name) })
      await client.post('/api/admin/storage/create', { mount_path: `/${name}`, driver, addition })
    }
    if (kind === 'upload') {
      await client.upload('/slow/file', content)
    } else {
      await writeFile(join(disks, 'slow', 'file'), content)
      await client.post('/api/fs/copy', { src_dir: '/slow', dst_dir: '/quick', names: ['file'] })
    }
    const folder = join(disks, target)
    while ((await stagedIn(folder)) < 16 * mebibyte) await wait(5)
    await daemon.kill()
    const held = await stagedIn(folder)
    const before = (await passed(daemon.dataFolder, way)).length

    daemon = await startDaemon(t, { program, dataFolder: daemon.dataFolder })
    client = await connect(daemon)
    t.match(await ended(client, kind), [{ state: 2 }])
    t.ok((await readFile(join(folder, 'file'))).equals(content), 'the file is complete')
    t.same(await filesBelow(folder), ['file'], 'no backup or staged file is left')
    const all = await passed(daemon.dataFolder, way)
    t.equal(all[before]?.offset, held, 'it resumed at this offset')
    const total = all.reduce((sum, { length }) => sum + length, 0)
    t.ok(total <= size + underway, `${total} bytes of ${size} were transferred`)
    await daemon.stop()
  })
}
