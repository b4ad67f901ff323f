/** Common SFTP clients, each with its particular requests, on two kinds of storage. */
import { createHash, randomBytes } from 'node:crypto'
import { copyFile, mkdir, readFile, readdir, rm, stat, truncate, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { startGateway } from '../gateway.js'
import { lacks } from '../programs.js'
import { sftpClients } from './sftp-clients.js'

const digest = async (file: string) =>
  createHash('sha256')
    .update(await readFile(file))
    .digest('hex')
/** The folder of the sources; the tests run compiled. */
const script = (name: string) => fileURLToPath(new URL(`../../../test/stories/${name}`, import.meta.url))

async function prepare(t: Test, driver: string) {
  const running = await startGateway(t, driver === 'Memory' ? { driver: { name: driver } } : {})
  const clients = await sftpClients(t, running, running.sftpPort)
  const { folder } = clients
  await writeFile(join(folder, 'large'), randomBytes(20_000_000))
  await mkdir(join(folder, 'tree/deep/empty'), { recursive: true })
  for (let file = 0; file < 60; file++) {
    const name = join(folder, 'tree', file % 2 === 0 ? 'deep' : '.', `${file} é世 "#'`)
    await writeFile(name, randomBytes(file * 1000))
    await utimes(name, 1_600_000_000 + file, 1_600_000_000 + file)
  }
  /** Checks that two local folders have the same content. */
  const same = async (t: Test, one: string, other: string, { times = true } = {}) => {
    const files = (await readdir(join(folder, one), { recursive: true })).sort()
    t.same((await readdir(join(folder, other), { recursive: true })).sort(), files)
    for (const file of files) {
      const [before, after] = [await stat(join(folder, one, file)), await stat(join(folder, other, file))]
      t.equal(after.size, before.isFile() ? before.size : after.size, file)
      if (!before.isFile()) continue
      t.equal(await digest(join(folder, other, file)), await digest(join(folder, one, file)), file)
      if (times) t.equal(Math.floor(after.mtimeMs / 1000), Math.floor(before.mtimeMs / 1000), `time of ${file}`)
    }
  }
  return { ...clients, running, large: await digest(join(folder, 'large')), same }
}

for (const driver of ['Local', 'Memory']) {
  void t.test(`lftp on ${driver}`, { skip: lacks('lftp', 'ssh') }, async (t) => {
    const { lftp, folder, large, same } = await prepare(t, driver)
    const outcome = await lftp([
      'mirror -R --parallel=4 tree up',
      'mirror --parallel=4 up down',
      'rm -r up/deep',
      'mirror -R --delete tree up',
      'put large',
      'pget -n 4 -c large -o parts',
      'ls',
      'mv large moved',
      'get moved -o whole',
      'chmod 600 moved',
      'rm -r up',
      'rm moved',
    ])
    t.equal(outcome.status, 0, outcome.complaints)
    await same(t, 'tree', 'down')
    t.equal(await digest(join(folder, 'parts')), large)
    t.equal(await digest(join(folder, 'whole')), large)
    t.equal((await lftp(['cls -1'])).out, '')
  })

  void t.test(`PuTTY's psftp on ${driver}`, { skip: lacks('psftp') }, async (t) => {
    const { run, running, folder, large, same } = await prepare(t, driver)
    const { out: scanned } = await run('ssh-keyscan', ['-p', String(running.sftpPort), '-t', 'ed25519', '127.0.0.1'])
    await writeFile(join(folder, 'known'), scanned)
    const { out: printed } = await run('ssh-keygen', ['-lf', 'known'])
    const hostKey = /SHA256:\S+/.exec(printed)?.[0] ?? ''
    await copyFile(join(folder, 'large'), join(folder, 'half'))
    await truncate(join(folder, 'half'), 9_000_000)
    await writeFile(
      join(folder, 'batch'),
      [
        'pwd',
        'put large',
        'ls',
        'get large back',
        'put half',
        'lcd .',
        'mv half renamed',
        'chmod 640 renamed',
        'put -r tree up',
        'get -r up down',
        'mkdir new',
        'rmdir new',
        'del large',
        'reget renamed half',
        'quit',
      ].join('\n'),
    )
    const words = ['-batch', '-hostkey', hostKey, '-P', String(running.sftpPort), '-l', 'admin']
    const outcome = await run('psftp', [...words, '-pw', running.adminPassword, '-b', 'batch', '127.0.0.1'])
    t.equal(outcome.status, 0, outcome.complaints)
    t.equal(await digest(join(folder, 'back')), large)
    await same(t, 'tree', 'down', { times: false })
    t.match(outcome.out, /renamed/)
  })

  void t.test(`paramiko on ${driver}`, { skip: lacks('paramiko') }, async (t) => {
    const { run, running, folder } = await prepare(t, driver)
    const words = [script('paramiko-client.py'), String(running.sftpPort), running.adminPassword, join(folder, 'large')]
    const outcome = await run('/usr/bin/python3', words)
    t.equal(outcome.status, 0, outcome.complaints)
    t.match(outcome.out, /all well/)
  })

  void t.test(`curl on ${driver}`, { skip: lacks('curl') }, async (t) => {
    const { run, running, folder, large } = await prepare(t, driver)
    const version = await run('curl', ['--version'])
    if (!version.out.includes(' sftp ')) {
      t.pass('this curl does not support SFTP')
      return
    }
    const address = `sftp://127.0.0.1:${running.sftpPort}`
    const curl = (...words: readonly string[]) =>
      run('curl', ['-sS', '--insecure', '-u', `admin:${running.adminPassword}`, ...words])
    const sent = await curl('-T', 'large', '--ftp-create-dirs', `${address}/made/below/large`)
    t.equal(sent.status, 0, sent.complaints)
    t.equal((await curl('-o', 'back', `${address}/made/below/large`)).status, 0)
    t.equal(await digest(join(folder, 'back')), large)
    await truncate(join(folder, 'back'), 5_000_000)
    t.equal((await curl('-C', '-', '-o', 'back', `${address}/made/below/large`)).status, 0)
    t.equal(await digest(join(folder, 'back')), large)
    t.equal((await curl('-o', 'part', '-r', '1000-1999', `${address}/made/below/large`)).status, 0)
    const whole = await readFile(join(folder, 'large'))
    t.ok((await readFile(join(folder, 'part'))).equals(whole.subarray(1000, 2000)))
    await writeFile(join(folder, 'tail'), 'the end')
    t.equal((await curl('--append', '-T', 'tail', `${address}/made/below/large`)).status, 0)
    const quotes = [
      '-Q',
      '-rename /made/below/large /made/moved',
      '-Q',
      '-rmdir /made/below',
      '-Q',
      '-chmod 600 /made/moved',
    ]
    t.match((await curl(...quotes, `${address}/made/`)).out, /below/)
    t.match((await curl(`${address}/made/`)).out, /^-rw------- .* 20000007 .* moved$/m)
  })

  void t.test(`rclone on ${driver}`, { skip: lacks('rclone') }, async (t) => {
    const { rclone, folder, large, same } = await prepare(t, driver)
    const well = async (...words: readonly string[]) => {
      const outcome = await rclone(...words)
      t.equal(outcome.status, 0, outcome.complaints)
      return outcome.out
    }
    await well('copyto', 'large', 'sftp:large')
    await well('copyto', 'sftp:large', 'back', '--multi-thread-streams', '4', '--multi-thread-cutoff', '1M')
    t.equal(await digest(join(folder, 'back')), large)
    await well('sync', 'tree', 'sftp:up', '--transfers', '8', '--create-empty-src-dirs')
    await well('sync', 'sftp:up', 'down', '--transfers', '8', '--create-empty-src-dirs')
    await same(t, 'tree', 'down')
    await well('moveto', 'sftp:large', 'sftp:moved')
    t.equal((await well('lsf', 'sftp:', '--format', 'ps')).includes('moved;20000000'), true)
    await well('purge', 'sftp:up')
    await rm(join(folder, 'down'), { recursive: true })
    t.equal((await well('lsf', 'sftp:')).trim(), 'moved')
  })

  void t.test(`OpenSSH with many requests in flight on ${driver}`, { skip: lacks('sftp') }, async (t) => {
    const { sftp, folder, large } = await prepare(t, driver)
    for (const [requests, bytes] of [
      ['1', '32768'],
      ['64', '261120'],
      ['1024', '261120'],
      ['1024', '1000'],
    ] as const) {
      const outcome = await sftp(['put large', 'get large back'], '-R', requests, '-B', bytes)
      t.equal(outcome.status, 0, outcome.complaints)
      t.equal(await digest(join(folder, 'back')), large, `-R ${requests} -B ${bytes}`)
    }
  })
}
