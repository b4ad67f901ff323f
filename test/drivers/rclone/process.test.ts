/** The process of rclone: its secrets, its ends and new starts, and what is left when it is killed in the middle. */
import { execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import type { DriverLog } from '../../../src/base/log.js'
import { at, bytesAt, endless, namesIn, put, refuses, source, textAt } from '../../driver-conformance/subject.js'
import { lacks } from '../../programs.js'
import { memoryState } from '../lib/cloud/vendor.js'
import { leftFiles, leftReplacement } from '../lib/staged-files/left-replacements.js'
import { obscured, rclone, startRclone, type RcloneMount } from './mount.js'
import { until } from '../../until.js'

const run = promisify(execFile)
const skip = lacks('rclone')

/** PIDs of the processes of rclone of this mount. */
async function processesOf(mount: RcloneMount): Promise<readonly number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const lines = pids.map(async (pid) => {
    const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    return line.includes('\0rcd\0') && line.includes(mount.config) ? [Number(pid)] : []
  })
  return (await Promise.all(lines)).flat()
}

async function kill(mount: RcloneMount): Promise<void> {
  for (const pid of await processesOf(mount)) process.kill(pid, 'SIGKILL')
}

async function prepare(t: Test): Promise<RcloneMount> {
  const mount = await startRclone()
  t.teardown(() => mount.stop())
  return mount
}

void t.test(
  'storages with the same command share one process, which ends with the last of them',
  { skip },
  async (t) => {
    const mount = await prepare(t)
    const [one, two] = [await mount.open('alias:'), await mount.open('crypt:')]
    const [pid] = await processesOf(mount)
    const [, , group] = (await readFile(`/proc/${pid}/stat`, 'utf8')).replace(/^.*\) /, '').split(' ')
    t.equal(Number(group), pid, 'it has a process group of its own, so that signals of a terminal do not reach it')
    t.equal((await processesOf(mount)).length, 1)
    const other = await mount.open('alias:', { flags: '--bwlimit=100M\n--timeout 5m' })
    t.equal((await processesOf(mount)).length, 2, 'other flags need another process')
    await other.close?.()
    await one.close?.()
    t.equal((await processesOf(mount)).length, 1)
    await put(two, '/file', 'x')
    await two.close?.()
    t.same(await processesOf(mount), [])
    t.same(await readdir(join(mount.data, 'rclone')), [], 'no folder is left')
  },
)

void t.test('a process starts when one that ends with the same configuration has ended', { skip }, async (t) => {
  const mount = await prepare(t)
  let most = 0
  const watch = setInterval(() => {
    void processesOf(mount).then((pids) => (most = Math.max(most, pids.length)))
  }, 5)
  t.teardown(() => clearInterval(watch))
  let driver = await mount.open('alias:')
  for (const flags of ['', '--timeout=1m', '']) {
    const closing = driver.close?.()
    driver = await mount.open('alias:', { flags })
    await closing
    t.same(await namesIn(driver, '/'), [])
  }
  await driver.close?.()
  t.equal(most, 1)
})

void t.test(
  'the credentials of the process are in no command line, no log and no error',
  { skip: skip || lacks('ps') },
  async (t) => {
    const mount = await prepare(t)
    const lines: string[] = []
    const write = (details: object, message: string) => void lines.push(`${JSON.stringify(details)} ${message}`)
    const log: DriverLog = { debug: write, info: write, warn: write, error: write }
    const driver = await mount.open('alias:', {}, { log })
    const [pid = 0] = await processesOf(mount)
    const environment = (await readFile(`/proc/${pid}/environ`, 'utf8')).split('\0')
    const secrets = environment.flatMap((line) => /^RCLONE_RC_(?:USER|PASS)=(.*)$/.exec(line)?.[1] ?? [])
    t.same(
      secrets.map((secret) => secret.length),
      [64, 64],
    )
    t.notOk(
      environment.some((line) => line.startsWith('TIDEGATE_')),
      'secrets of the daemon are not passed on',
    )
    const folder = join(mount.data, 'rclone')
    t.equal((await stat(folder)).mode & 0o777, 0o700)
    const errors: unknown[] = []
    const fail = (call: () => Promise<unknown>) => call().catch((error: unknown) => errors.push(error))
    await fail(() => driver.stat(at('/none')))
    const { source: body, body: stream, begun } = endless(1_000_000)
    const writing = fail(() => driver.write(at('/file'), body))
    await begun
    const commands = (await run('ps', ['-eo', 'args'])).stdout
    stream.destroy(new Error('cut'))
    await writing
    const reading = fail(async () => (await driver.read(at('/none'))).resume())
    await kill(mount)
    await reading
    t.ok(await until(async () => (await processesOf(mount)).length === 1), 'it is started again')
    const texts = [commands, ...lines, ...errors.map((error) => `${String(error)} ${String((error as Error).cause)}`)]
    for (const secret of secrets) t.notOk(texts.some((text) => text.includes(secret)))
    t.ok(lines.some((line) => line.includes('rclone has ended')))
    await driver.close?.()
  },
)

void t.test('options that would show more than a remote of the configuration are refused', { skip }, async (t) => {
  const mount = await prepare(t)
  const remotes = [
    ...['', 'alias', ':local:', ':local:/etc', ':alias,remote="/etc":', 'alias,remote=/etc:', 'alias,copy_links:'],
    ...['/etc', '/etc:', '../x:', 'alias:../x', 'alias:x/../..', '--config=x:', '-x:', 'alias:a]b', 'al\0ias:'],
  ]
  for (const remote of remotes)
    await refuses(t, () => mount.open(remote), 'invalid', `the remote ${JSON.stringify(remote)}`)
  for (const remote of ['none:', 'local', 'alias:missing/folder'])
    await refuses(t, () => mount.open(remote), ['invalid', 'unavailable'], `the remote ${remote}`)
  for (const flags of [
    '--config=/x',
    '--rc-addr :1',
    '--bwlimit=1M;x',
    '--timeout',
    '-vv',
    'bwlimit=1',
    '--log-file=x',
  ])
    await refuses(t, () => mount.open('alias:', { flags }), 'invalid', `the flag ${flags}`)
  await refuses(t, () => mount.open('alias:', { program_path: '/nowhere/rclone' }), 'invalid', 'a missing program')
  await refuses(t, () => mount.open('alias:', { config_path: '/nowhere' }), 'invalid', 'a missing configuration')
  t.same(await processesOf(mount), [], 'no process is left')
})

void t.test('a program that is not rclone is named as the reason', { skip }, async (t) => {
  const mount = await prepare(t)
  const script = join(mount.data, 'script')
  await writeFile(script, '#!/bin/sh\necho no rclone v1\nexit 3\n', { mode: 0o755 })
  const text = join(mount.data, 'text')
  await writeFile(text, 'no program', { mode: 0o755 })
  for (const program_path of [script, text, '/bin/true', '/bin/cat'])
    await t.rejects(
      mount.open('alias:', { program_path }),
      { code: 'invalid', reason: 'program_path is not rclone: it does not report a version of rclone' },
      program_path,
    )
  await writeFile(mount.config, 'RCLONE_ENCRYPT_V0:\nnonsense')
  await t.rejects(mount.open('alias:'), { code: 'invalid', reason: /config_password may be wrong/ })
  t.same(await processesOf(mount), [], 'no process is left')
})

void t.test('a file beside buckets is refused with what to do instead', { skip }, async (t) => {
  const mount = await startRclone({
    over: { type: 'crypt', remote: 'memory:', password: await obscured('x') },
  })
  t.teardown(() => mount.stop())
  const refusal = { code: 'denied', reason: /each folder is a bucket: make a folder first/ }
  for (const remote of ['memory:', 'over:']) {
    const driver = await mount.open(remote)
    await put(driver, '/bucket/file', 'content')
    await t.rejects(put(driver, '/file', 'x'), refusal, remote)
    await t.rejects(async () => driver.copy?.(at('/bucket/file'), at('/file')), refusal, remote)
    t.equal(await textAt(driver, '/bucket/file'), 'content')
    t.same(await namesIn(driver, '/'), ['bucket'])
    await driver.close?.()
  }
  for (const remote of ['memory:inside', 'over:inside', 'alias:']) {
    const driver = await mount.open(remote)
    await put(driver, '/file', 'x')
    t.same(await namesIn(driver, '/'), ['file'], `${remote} is in a bucket, or has none`)
    await driver.close?.()
  }
})

void t.test('remotes that show folders of the gateway are refused, also through others', { skip }, async (t) => {
  const mount = await startRclone({
    over: { type: 'crypt', remote: 'alias:own', password: await obscured('x') },
    joined: { type: 'union', upstreams: 'over: /usr/share' },
    combined: { type: 'combine', upstreams: '"a=joined:" b=/usr' },
    fly: { type: 'crypt', remote: ':alias,remote=/usr:', password: await obscured('x') },
    hidden: { type: 'crypt', remote: ':chunker,remote=/usr:', password: await obscured('x') },
    above: { type: 'alias', remote: '/' },
  })
  t.teardown(() => mount.stop())
  const own = join(mount.files, 'alias', 'own')
  await mkdir(join(own, 'ssh'), { recursive: true })
  await symlink(own, join(mount.files, 'local', 'link'))
  const env = { own: { data: mount.data, protectedPaths: [join(own, 'ssh')] } }
  const opened = (remote: string) => mount.open(remote, {}, env)
  for (const remote of ['alias:', 'alias:own/ssh', 'over:', 'joined:', 'combined:', 'above:', 'local:/', 'hidden:'])
    await refuses(t, () => opened(remote), 'invalid', remote)
  await refuses(t, () => opened(`local:${join(mount.files, 'local', 'link', 'ssh')}`), 'invalid', 'through a symlink')
  for (const remote of ['union:', 'crypt:', 'fly:', `local:${join(mount.files, 'local')}`]) {
    await (await opened(remote)).close?.()
    t.pass(`${remote} is accepted`)
  }
})

void t.test('an encrypted configuration needs its password', { skip }, async (t) => {
  const mount = await prepare(t)
  // Version 1.60 encrypts interactively only.
  const { RCLONE_CONFIG_PASS: _, ...env } = process.env
  const words = ['--config', mount.config, 'config', 'encryption', 'set', '--password-command', 'echo a secret']
  const isDone = await run(rclone, words, { env }).then(
    () => true,
    () => false,
  )
  if (!isDone) {
    t.pass('encryption', { skip: 'this version of rclone cannot encrypt its configuration without a terminal' })
    return
  }
  for (const config_password of ['', 'another'])
    await refuses(t, () => mount.open('alias:', { config_password }), 'invalid', 'without the password')
  const driver = await mount.open('alias:', { config_password: 'a secret' })
  t.same(await namesIn(driver, '/'), [])
  await driver.close?.()
  t.same(await processesOf(mount), [])
})

void t.test('killed at random, every call succeeds or fails clearly, and no file is torn', { skip }, async (t) => {
  const mount = await prepare(t)
  const rounds = Number(process.env.TIDEGATE_KILL_ROUNDS ?? 3)
  const driver = await mount.open('crypt:')
  const contents = ['a', 'b'].map((letter) => Buffer.alloc(3_000_000, letter))
  await put(driver, '/file', contents[0] ?? '')
  for (let round = 0; round < rounds * 3; round++) {
    // The first ones start again after longer and longer pauses. The others have lived long enough to start again at
    // once.
    if (round >= 4) await pause(1000)
    const calls = [
      put(driver, '/file', contents[round % 2] ?? ''),
      put(driver, `/new-${round}`, contents[0] ?? ''),
      bytesAt(driver, '/file'),
      namesIn(driver, '/'),
      driver.mkdir(at(`/folder-${round}`)),
    ]
    await pause(Math.random() * 150)
    await kill(mount)
    for (const call of await Promise.allSettled(calls))
      if (call.status === 'rejected') t.match(call.reason, { code: /^(?:unavailable|not_found)$/ }, 'a clear error')
    const works = () =>
      driver.stat(at('/file')).then(
        () => true,
        () => false,
      )
    t.ok(await until(works), 'the storage works again')
    const found = await bytesAt(driver, '/file')
    t.ok(
      contents.some((content) => content.equals(found)),
      'the old or the new file',
    )
    for (const name of (await namesIn(driver, '/')).filter((each) => each.startsWith('new-')))
      t.equal((await driver.stat(at(`/${name}`))).size, 3_000_000, `${name} is whole`)
  }
  t.notOk(
    (await namesIn(driver, '/')).some((name) => name.includes('~replaced-')),
    'no old file is left aside',
  )
  await driver.close?.()
})

void t.test('a source that is cut leaves the old file, on every kind of remote', { skip }, async (t) => {
  const mount = await prepare(t)
  for (const remote of ['alias:', 'crypt:', 'memory:bucket', 'chunker:']) {
    const driver = await mount.open(await mount.folder(remote))
    const old = randomBytes(2_500_000)
    await put(driver, '/file', old)
    for (const size of [5_000_000, undefined]) {
      const half = Readable.from(
        (function* () {
          for (let index = 0; index < 40; index++) yield Buffer.alloc(64_000)
          throw new Error('cut')
        })(),
        { objectMode: false },
      )
      await refuses(
        t,
        () => driver.write(at('/file'), { size, rereadable: false, read: async () => half }),
        'internal',
        'cut',
      )
    }
    t.ok((await bytesAt(driver, '/file')).equals(old), `${remote} has the old file`)
    t.same(await namesIn(driver, '/'), ['file'])
    t.equal((await mount.rclone('lsf', remote === 'memory:bucket' ? 'alias:' : remote)).includes('.~tidegate'), false)
    await driver.close?.()
  }
})

void t.test('a replacement that was interrupted is settled when the storage is opened again', { skip }, async (t) => {
  const mount = await prepare(t)
  const folder = join(mount.files, 'alias')
  for (const { files, content, left } of leftFiles) {
    for (const name of await readdir(folder)) await run('rm', ['-r', join(folder, name)])
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
    const { state, values } = memoryState()
    await state.set('replacing', JSON.stringify([leftReplacement]))
    const driver = await mount.open('alias:', {}, { state })
    t.equal(await textAt(driver, '/file'), content, Object.keys(files).join(' and '))
    t.same((await readdir(folder)).sort(), left)
    t.equal(values.size, 0)
    await driver.close?.()
  }
})

void t.test('the process ends with a daemon that is killed', { skip: skip || lacks('setpriv') }, async (t) => {
  const mount = await prepare(t)
  const code = `
    const { rcloneType } = await import('${new URL('../../../drivers/rclone/index.js', import.meta.url).href}')
    const { testEnv } = await import('${new URL('../env.js', import.meta.url).href}')
    const options = ${JSON.stringify({ remote: 'alias:', config_path: mount.config, config_password: '', program_path: rclone, flags: '' })}
    await rcloneType.open(options, testEnv({ own: { data: ${JSON.stringify(mount.data)}, protectedPaths: [] } }))
    console.log('open')
    setInterval(() => undefined, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  t.equal((await processesOf(mount)).length, 1)
  child.kill('SIGKILL')
  await once(child, 'exit')
  t.ok(await until(async () => (await processesOf(mount)).length === 0), 'it has ended')
  const [left = ''] = await readdir(join(mount.data, 'rclone'))
  t.not(left, '', 'its folder remains')
  // As on a system where it could not be ended with the daemon.
  const orphan = spawn(
    rclone,
    ['rcd', '--rc-addr', '127.0.0.1:0', '--config', mount.config, '--temp-dir', join(mount.data, 'rclone', left)],
    {
      stdio: 'ignore',
    },
  )
  t.ok(await until(async () => (await processesOf(mount)).length === 1), 'an orphan runs')
  const driver = await mount.open('alias:')
  t.ok(orphan.signalCode === 'SIGKILL' || !(await processesOf(mount)).includes(orphan.pid ?? 0), 'the orphan was ended')
  t.notOk(existsSync(join(mount.data, 'rclone', left)), 'its folder was removed')
  await driver.close?.()
})

void t.test('createOnly with an unknown size, and a name too long, are refused clearly', { skip }, async (t) => {
  const mount = await prepare(t)
  const driver = await mount.open('crypt:')
  await put(driver, '/file', 'x')
  await refuses(
    t,
    () => driver.write(at('/file'), source('y', undefined), { createOnly: true }),
    'exists',
    'createOnly',
  )
  await refuses(t, () => put(driver, `/${'n'.repeat(200)}`, 'x'), 'invalid', 'a name that is too long encrypted')
  const long = `/${'n'.repeat(143)}`
  await put(driver, long, 'old')
  await put(driver, long, 'new')
  t.equal(await textAt(driver, long), 'new', 'a file with the longest name can be replaced')
  await driver.close?.()
})
