/**
 * The process of rclone behind a storage is killed at random while a client copies a tree into the storage over WebDAV:
 * the client gets clear errors, the storage comes back by itself, and a further copy completes the tree. There is a
 * kill for each of TIDEGATE_KILL_ROUNDS, and 25 files.
 */
import { execFile } from 'node:child_process'
import { randomBytes, randomInt } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { startGateway } from '../gateway.js'
import { lacks, onlyWithVariants } from '../programs.js'
import { mount, remoteNamed } from '../servers/remotes.js'

const run = promisify(execFile)
const rounds = Number(process.env.TIDEGATE_KILL_ROUNDS ?? 4)
/** Copies after the last kill, of which one has to complete the tree. */
const maxCopies = 5

async function temporaryFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-rclone-kills-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

async function randomTree(t: Test, files: number): Promise<string> {
  const folder = await temporaryFolder(t)
  for (let index = 0; index < files; index++) {
    const path = join(folder, `folder ${index % 7}`, ...(index % 3 === 0 ? ['below'] : []), `file-${index}.bin`)
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, randomBytes(index % 10 === 0 ? randomInt(2_000_000) : randomInt(50_000)))
  }
  return folder
}

/** Ends the processes of rclone with this configuration. Resolves to how many there were. */
async function kill(config: string): Promise<number> {
  let killed = 0
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    if (!line.includes('\0rcd\0') || !line.includes(config)) continue
    process.kill(Number(pid), 'SIGKILL')
    killed++
  }
  return killed
}

interface Outcome {
  readonly isDone: boolean
  /** What the client has printed. */
  readonly text: string
}

/** A client that copies to WebDAV and retries nothing. */
async function clientOf(t: Test, davUrl: string, password: string) {
  const config = join(await temporaryFolder(t), 'rclone.conf')
  const pass = (await run('rclone', ['obscure', password])).stdout.trim()
  const dav = ['[dav]', 'type = webdav', `url = ${davUrl}`, 'vendor = owncloud', 'user = admin', `pass = ${pass}`, '']
  await writeFile(config, dav.join('\n'))
  return async (...words: readonly string[]): Promise<Outcome> => {
    const options = ['--config', config, '--retries', '1', '--low-level-retries', '1', '--transfers', '4']
    return run('rclone', [...options, ...words], { maxBuffer: 1 << 26, timeout: 300_000 }).then(
      ({ stdout }) => ({ isDone: true, text: stdout }),
      (error: unknown) => ({ isDone: false, text: (error as { readonly stderr?: string }).stderr ?? '' }),
    )
  }
}

for (const name of ['Rclone over crypt', 'Rclone over S3']) {
  const remote = remoteNamed(name)
  // The server of a slow remote needs half a minute.
  const isSkipped = remote.isSlow === true && onlyWithVariants
  void t.test(name, { skip: isSkipped || lacks(...remote.programs) }, async (t) => {
    const server = await remote.start()
    t.teardown(() => server.stop())
    const running = await startGateway(t)
    const storages = await server.storages('/remote')
    await mount(running, running.adminPassword, storages)
    const { config_path: config } = storages[0]?.addition as { config_path: string }
    const client = await clientOf(t, running.davUrl, running.adminPassword)
    const tree = await randomTree(t, 25 * rounds)
    const outcomes: Outcome[] = []
    let kills = 0
    while (kills < rounds) {
      const copying = client('copy', tree, 'dav:/remote/tree')
      const isRunning = copying.then(() => false)
      while (kills < rounds) {
        const isOver = await Promise.race([isRunning, delay(randomInt(100, 900), true)])
        if (!isOver) break
        kills += await kill(config)
      }
      outcomes.push(await copying)
      // Files that were stored are replaced, so that each round has something to do.
      if (kills < rounds) await client('purge', `dav:/remote/tree/folder ${randomInt(7)}`)
    }
    t.ok(kills >= rounds, `${kills} kills, ${outcomes.filter(({ isDone }) => !isDone).length} copies were disturbed`)
    for (const { text } of outcomes) t.notMatch(text, /\b500 Internal/, 'every error has a reason')
    let isDone = false
    for (let copies = 0; copies < maxCopies && !isDone; copies++) {
      isDone = (await client('copy', tree, 'dav:/remote/tree')).isDone
      if (!isDone) await delay(1000)
    }
    t.ok(isDone, 'the storage came back by itself')
    const check = await client('check', '--download', tree, 'dav:/remote/tree')
    t.ok(check.isDone, check.isDone ? 'every file is whole, and there is no other' : check.text)
    t.notMatch(
      (await client('lsf', '-R', 'dav:/remote')).text,
      /~(?:replaced|kept)-|\.~tidegate/,
      'nothing is left over',
    )
  })
}
