/** Checks what the machine gives the daemon: Node.js, compiled parts, descriptors, memory, space, time. */
import { createRequire } from 'node:module'
import { readFile, stat, statfs } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import type { Config } from '../../installation/config.js'
import { lockHolderOf } from '../../installation/data-folder.js'
import { isPostgresUrl } from '../../database/store-url.js'
import { wrong, shellWord, type Finding } from '../finding.js'

/** Fewer descriptors are used up by a few hundred clients. */
const fewestDescriptors = 4096
/** Bytes below which transfers compete with the program itself. */
const leastMemory = 256 * 1024 ** 2
/** Bytes of free space below which the database may soon fail to grow. */
const leastSpace = 512 * 1024 ** 2
/** Milliseconds by which the clock may be behind the newest change of the database. */
const clockTolerance = 60_000

/** Magic numbers of file systems that other machines serve (statfs(2)). */
const networkFileSystems = new Map([
  [0x6969, 'NFS'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
])

/** The parts that are compiled for the machine; the program also runs without the last two, slowly. */
const compiledParts = [
  { name: 'sqlite3', module: 'sqlite3', without: 'the database cannot be opened' },
  {
    name: 'ssh2',
    module: 'ssh2/lib/protocol/crypto/build/Release/sshcrypto.node',
    without: 'SFTP encrypts in JavaScript, which takes up to twice the time',
  },
  { name: 'sodium-native', module: 'sodium-native', without: 'Crypt storages take twice the time' },
] as const

const load: (module: string) => unknown = createRequire(import.meta.url)

/** The findings on this machine. Changes nothing. */
export async function machineFindings(config: Config): Promise<readonly Finding[]> {
  return [
    { what: 'Node.js', ok: true, detail: `${process.version} for ${process.arch}` },
    ...compiledParts.map(compiledFinding),
    await descriptorFinding(config.data),
    await memoryFinding(config.data),
    await spaceFinding(config),
    await clockFinding(config),
  ]
}

function compiledFinding({ name, module, without }: (typeof compiledParts)[number]): Finding {
  try {
    load(module)
    return { what: name, ok: true, detail: 'the compiled part is in use' }
  } catch {
    const folder = new URL('../../../../', import.meta.url).pathname
    const remedy = `npm rebuild ${name} --prefix ${shellWord(folder)} # in a clone; else install the package again`
    return wrong(name, `its compiled part cannot be loaded: ${without}`, remedy)
  }
}

/** Node raises its soft limit to the hard one when it starts. */
async function descriptorFinding(data: string): Promise<Finding> {
  const daemon = (await lockHolderOf(data))?.pid
  const limits = await readFile(`/proc/${daemon ?? 'self'}/limits`, 'utf8').catch(() => '')
  const [, hard = 'unlimited'] = /^Max open files +\S+ +(\S+)/m.exec(limits) ?? []
  const what = 'open files'
  if (hard === 'unlimited' || Number(hard) >= fewestDescriptors) return { what, ok: true, detail: `limit ${hard}` }
  return wrong(
    what,
    `${daemon === undefined ? 'a program started here' : 'the daemon'} may open ${hard} files and connections`,
    'set LimitNOFILE=65536 in the unit ("systemctl edit tidegate"), or start the daemon after "ulimit -n 65536"',
  )
}

/** The limits of control groups (cgroups(7), version 2) apply to the groups below them too. */
async function memoryFinding(data: string): Promise<Finding> {
  const daemon = (await lockHolderOf(data))?.pid
  const groups = await readFile(`/proc/${daemon ?? 'self'}/cgroup`, 'utf8').catch(() => '')
  let bytes = totalmem()
  for (let group = /^0::(.*)$/m.exec(groups)?.[1] ?? '/'; ; group = dirname(group)) {
    const limit = Number(await readFile(join('/sys/fs/cgroup', group, 'memory.max'), 'utf8').catch(() => 'max'))
    if (limit < bytes) bytes = limit
    if (group === '/' || group === '.') break
  }
  const detail = `${Math.round(bytes / 1024 ** 2)} MiB`
  if (bytes >= leastMemory) return { what: 'memory', ok: true, detail }
  return wrong('memory', `only ${detail}`, 'raise MemoryMax in the unit, or the limit of the container, to 256 MiB')
}

async function spaceFinding(config: Config): Promise<Finding> {
  const what = 'free space'
  const system = await statfs(config.data).catch(() => undefined)
  if (!system) return { what, ok: null, detail: `${config.data} cannot be examined` }
  const network = networkFileSystems.get(system.type)
  if (network !== undefined && !isPostgresUrl(config.store)) {
    const remedy = 'move the data folder to a local disk, or the database to PostgreSQL with "tidegate store copy"'
    return wrong(what, `${config.data} is on ${network}, where SQLite loses data`, remedy)
  }
  const free = system.bavail * system.bsize
  const detail = `${Math.round(free / 1024 ** 2)} MiB, ${system.ffree} new files`
  // File systems without a table of files, such as Btrfs, have 0 of 0.
  if (free >= leastSpace && (system.files === 0 || system.ffree >= 1000)) return { what, ok: true, detail }
  return wrong(what, `only ${detail} in ${config.data}`, `du -x -d 2 ${shellWord(config.data)} # shows what takes it`)
}

/**
 * A clock that was set back makes sign-ins, locks and links last too long, and refuses codes of two-step verification.
 */
async function clockFinding({ data }: Config): Promise<Finding> {
  const times = await Promise.all(
    ['data.db', 'data.db-wal', 'daemon.pid'].map((name) =>
      stat(join(data, name)).then(
        ({ mtimeMs }) => mtimeMs,
        () => 0,
      ),
    ),
  )
  const behind = Math.max(...times) - Date.now()
  if (behind <= clockTolerance) return { what: 'clock', ok: true, detail: new Date().toISOString() }
  const detail = `it is ${Math.round(behind / 60_000)} minutes behind the newest change of the data folder`
  return wrong('clock', detail, 'timedatectl set-ntp true')
}
