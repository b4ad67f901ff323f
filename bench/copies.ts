/**
 * Copies of trees between storages by a task, compared with other copy programs, and the bytes that a copy writes to
 * the local disk.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { mount, remoteNamed, type RemoteServer } from '../test/servers/remotes.js'
import { newName, writeContent } from './content.js'
import type { Peer } from './peers/peer.js'
import { isTidegate, password, type Tidegate } from './peers/tidegate.js'
import { rcloneProgram, run } from './programs.js'
import { counted, mebibytes, scaled, type Aim, type Bench, type Row } from './row.js'
import { sampled, seconds } from './samples.js'

interface Shown {
  readonly name: string
  readonly state: number
  readonly error: string
}

/** The state number of a succeeded task in the API. */
const succeeded = 2

/** Copies members of one folder to another by a task. Rejects if any of it fails. */
async function copyByTask(peer: Tidegate, from: string, to: string, names: readonly string[]): Promise<void> {
  await peer.call('/api/fs/copy', { src_dir: from, dst_dir: to, names })
  const tasks = async (list: string): Promise<readonly Shown[]> => {
    const response = await fetch(`${peer.url}/api/task/copy/${list}`, { headers: { Authorization: peer.token } })
    return ((await response.json()) as { data: readonly Shown[] }).data
  }
  // Not more often: the requests would take time from the copy.
  while ((await tasks('undone')).length > 0) await sleep(25)
  const failed = (await tasks('done')).find(({ state }) => state !== succeeded)
  if (failed) throw new Error(`${failed.name}: ${failed.error}`)
  await peer.call('/api/task/copy/clear_done', {})
}

const aims: readonly Aim[] = [{ factor: 1, peers: ['rclone'] }]

interface Tree {
  readonly name: string
  readonly title: (bench: Bench) => string
  readonly fill: (folder: string, bench: Bench) => Promise<void>
  /** The copies are not deleted before the end of the run, see `newName`. */
  readonly stays: boolean
}

/** A row that copies the tree below `name` from one local folder to another on the same disk. */
function treeRow({ name, title, fill, stays }: Tree) {
  const places = ({ folder }: Bench) => ({ from: join(folder, `${name}-from`), to: join(folder, `${name}-to`) })
  const mounted = new Set<Peer>()
  const row: Row = {
    name,
    figures: (bench) => [{ title: title(bench), unit: 's', aims }],
    async prepare(bench) {
      const { from, to } = places(bench)
      await mkdir(to)
      await fill(join(from, 'tree'), bench)
    },
    async measure(peer, bench) {
      const { from, to } = places(bench)
      const target = newName()
      const [source, copy] = [join(from, 'tree'), join(to, target, 'tree')]
      await mkdir(join(to, target))
      try {
        if (peer.name === 'cp') return [await seconds(() => run('cp', ['-r', source, copy]))]
        if (peer.name === 'rclone') return [await seconds(() => run(rcloneProgram, ['copy', source, copy]))]
        if (!isTidegate(peer)) return undefined
        if (!mounted.has(peer)) {
          const storages = Object.entries({ from, to }).map(([end, root_folder_path]) => {
            return { mountPath: `/${name}-${end}`, driver: 'Local', addition: { root_folder_path } }
          })
          await mount(peer, password, storages)
          mounted.add(peer)
        }
        const copied = () => copyByTask(peer, `/${name}-from`, `/${name}-to/${target}`, ['tree'])
        return [await sampled(peer, () => seconds(copied))]
      } finally {
        if (!stays) await rm(join(to, target), { recursive: true, force: true })
      }
    },
  }
  return row
}

const small = treeRow({
  name: 'copy-small',
  title: (bench) => {
    const folders = scaled(bench, 100)
    return `copy of ${counted(folders * 100)} × 4 KiB in ${folders} folders, Local to Local`
  },
  stays: true,
  fill: async (tree, bench) => {
    for (let folder = 0; folder < scaled(bench, 100); folder++) {
      const place = join(tree, `folder-${folder}`)
      await mkdir(place, { recursive: true })
      for (let file = 0; file < 100; file++) await writeFile(join(place, `file-${file}`), Buffer.alloc(4096, file))
    }
  },
})

const large = treeRow({
  name: 'copy-large',
  title: ({ size }) => `copy of 10 × ${mebibytes(size)}, Local to Local`,
  stays: false,
  fill: async (tree, { size }) => {
    await mkdir(tree, { recursive: true })
    for (let file = 0; file < 10; file++) await writeContent(join(tree, `file-${file}`), size)
  },
})

/** Bytes that the process has caused to be written to disks. */
async function written({ processes }: Peer): Promise<number> {
  const [daemon] = processes
  const counted = await readFile(`/proc/${daemon?.pid}/io`, 'utf8')
  return Number(/^write_bytes: (\d+)/m.exec(counted)?.[1])
}

/** The bytes that a copy writes to the local disks of the daemon. */
function writtenRow(): Row {
  let server: RemoteServer | undefined
  return {
    name: 'copy-written',
    figures: () => [
      {
        title: 'written to the local disk for each byte copied, Local to Local',
        unit: 'bytes',
        aims: [{ atMost: 1.05 }],
      },
      { title: 'the same, SFTP to SFTP', unit: 'bytes', aims: [{ atMost: 0.05 }] },
    ],
    async finish() {
      await server?.stop()
    },
    async measure(peer, { folder, bigFile, size }) {
      if (!isTidegate(peer)) return undefined
      server ??= await remoteNamed('SFTP').start()
      const root_folder_path = join(folder, newName())
      await mkdir(root_folder_path)
      const [local, one, other] = [newName(), newName(), newName()].map((name) => `/${name}`) as [
        string,
        string,
        string,
      ]
      await mount(peer, password, [
        { mountPath: local, driver: 'Local', addition: { root_folder_path } },
        ...(await server.storages(one)),
        ...(await server.storages(other)),
      ])
      const writtenBy = async (from: string, to: string) => {
        const before = await written(peer)
        await copyByTask(peer, from, to, [bigFile])
        return ((await written(peer)) - before) / size
      }
      try {
        const toLocal = await writtenBy('/', local)
        await copyByTask(peer, '/', one, [bigFile])
        return [toLocal, await writtenBy(one, other)]
      } finally {
        await rm(root_folder_path, { recursive: true, force: true })
      }
    },
  }
}

export const copyRows: readonly Row[] = [small, large, writtenRow()]
