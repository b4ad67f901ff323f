/** Faults between the FTP driver and its server: cut, silent or idle connections, few connections, a full disk. */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import {
  at,
  bytesAt,
  chunks,
  endless,
  namesIn,
  put,
  refuses,
  source,
  textAt,
  type WritableDriver,
} from '../../driver-conformance/subject.js'
import { startCuttingProxy, type CuttingProxy } from '../../servers/cutting-proxy.js'
import { startFtpFront } from '../../servers/ftp-front.js'
import type { FtpServer } from '../../servers/ftp-process.js'
import { startPureFtpd } from '../../servers/pure-ftpd.js'
import { startVsftpd } from '../../servers/vsftpd.js'
import { emptyFolder, ftpSkip as skip, openFtpMount as open, started } from './mount.js'
import { until } from '../../until.js'

const run = promisify(execFile)
const between = '127.0.0.2'
const broken = ['unavailable', 'timeout'] as const

/** A server whose control and data connections go through proxies on another loopback address. */
async function behindProxies(t: Test) {
  // Below the ephemeral ports of the system.
  const first = 20_000 + Math.floor(Math.random() * 1_200) * 10
  const passivePorts = { first, last: first + 9 }
  const server = await started(t, () => startPureFtpd({ passivePorts }))
  const control = await startCuttingProxy(server.port, { host: between })
  const data: CuttingProxy[] = []
  for (let port = first; port <= passivePorts.last; port++) {
    data.push(await startCuttingProxy(port, { host: between, port }))
  }
  t.teardown(() => Promise.all([control, ...data].map((proxy) => proxy.stop())))
  const { files, path } = await emptyFolder(server)
  const driver = await open(server, path, { address: `${between}:${control.port}` })
  t.teardown(() => driver.close?.())
  return { server, control, data, files, path, driver }
}

void t.test('FTP: a data connection that is cut leaves the old file and no staged file', { skip }, async (t) => {
  const { data, files, driver } = await behindProxies(t)
  const old = randomBytes(2_000_000)
  await put(driver, '/file', old)
  for (const bytes of [1, 100_000, 1_500_000]) {
    for (const proxy of data) proxy.cut('up', bytes)
    await refuses(t, () => put(driver, '/file', randomBytes(2_000_000)), broken, `a write, cut after ${bytes}`)
    for (const proxy of data) proxy.heal()
    t.same(await readdir(files), ['file'], 'no staged file is left')
    t.ok((await bytesAt(driver, '/file')).equals(old))
    for (const proxy of data) proxy.cut('down', bytes)
    await refuses(t, () => bytesAt(driver, '/file'), broken, `a read, cut after ${bytes}`)
    if (bytes === 1) await refuses(t, () => namesIn(driver, '/'), broken, 'a listing')
    for (const proxy of data) proxy.heal()
  }
  t.ok((await bytesAt(driver, '/file')).equals(old), 'the file can be read again')
})

void t.test(
  'FTP: a control connection that is cut at any point leaves the old or the new file',
  { skip },
  async (t) => {
    const { control, files, driver } = await behindProxies(t)
    const [one, two] = ['1', '2'].map((digit) => digit.repeat(100_000)) as [string, string]
    const isWhole = (text: string) => text === one || text === two
    await put(driver, '/file', one)
    const steps: readonly (readonly [string, () => Promise<unknown>])[] = [
      ['write', () => put(driver, '/file', two)],
      ['list', () => namesIn(driver, '/')],
      ['move', async () => driver.move?.(at('/file'), at('/moved'))],
      ['read', () => textAt(driver, '/file')],
    ]
    for (const [name, step] of steps) {
      for (const bytes of [1, 60, 150, 300, 450, 600]) {
        await driver.stat(at('/'))
        control.cut('up', bytes)
        const failed = await step().then(
          () => undefined,
          (error: unknown) => error as { code: string },
        )
        if (failed)
          t.ok(
            ['unavailable', 'timeout', 'not_found'].includes(failed.code),
            `${name}, cut after ${bytes}: ${failed.code}`,
          )
        control.heal()
        const names = await namesIn(driver, '/')
        if (names.includes('moved')) await driver.move?.(at('/moved'), at('/file'))
        t.ok(isWhole(await textAt(driver, '/file')), 'the old file or the new one')
      }
    }
    t.same(await namesIn(driver, '/'), ['file'])
    for (const name of await readdir(files)) if (name !== 'file') await rm(join(files, name))
    await driver.close?.()
    await until(() => control.open === 0)
    t.equal(control.open, 0, 'no connection is left open')
  },
)

void t.test('FTP replaces connections that broke while idle', { skip }, async (t) => {
  const server = await started(t, () => startPureFtpd())
  const { path } = await emptyFolder(server)
  let proxy = await startCuttingProxy(server.port)
  const driver = await open(server, path, { address: `127.0.0.1:${proxy.port}` })
  await put(driver, '/file', 'content')
  const { port } = proxy
  await proxy.stop()
  await refuses(t, () => driver.stat(at('/file')), broken, 'a server that is down')
  proxy = await startCuttingProxy(server.port, { port })
  t.equal(await textAt(driver, '/file'), 'content')
  await put(driver, '/file', 'more')
  t.equal(await textAt(driver, '/file'), 'more')
  await driver.close?.()
  await proxy.stop()
})

void t.test('FTP: a silent server does not delay the abort of a call', { skip }, async (t) => {
  const { control, data, files, driver } = await behindProxies(t)
  await put(driver, '/file', randomBytes(20_000_000))
  const calls: readonly (readonly [string, (signal?: AbortSignal) => Promise<unknown>])[] = [
    ['stat', (signal) => driver.stat(at('/file'), { signal })],
    ['list', async (signal) => driver.pages(at('/'), { signal })[Symbol.asyncIterator]().next()],
    ['read', async (signal) => buffer(await driver.read(at('/file'), undefined, { signal }))],
    ['write', (signal) => driver.write(at('/new'), source('x'), { signal })],
  ]
  for (const [name, call] of calls) {
    await driver.stat(at('/'))
    for (const proxy of [control, ...data]) proxy.stall()
    const before = Date.now()
    await refuses(t, () => call(AbortSignal.timeout(200)), 'aborted', name)
    t.ok(Date.now() - before < 5000, `${name} ends soon`)
    for (const proxy of [control, ...data]) proxy.heal()
  }
  t.same(await namesIn(driver, '/'), ['file'])
  control.stall()
  setTimeout(() => control.heal(), 5000)
  t.equal((await driver.stat(at('/file'))).size, 20_000_000, 'five seconds of silence are tolerated')
  control.stall()
  const waiting = refuses(t, () => driver.stat(at('/file')), 'aborted', 'a call when the storage is closed')
  await pause(50)
  await driver.close?.()
  await waiting
  t.ok((await readdir(files)).includes('file'))
})

void t.test('FTP: concurrent calls share the few connections of a server', { skip }, async (t) => {
  const server = await started(t, () => startPureFtpd({ connections: 3 }))
  const { path } = await emptyFolder(server)
  const driver = await open(server, path)
  const data = randomBytes(300_000)
  await Promise.all(Array.from({ length: 20 }, (_, index) => put(driver, `/file-${index}`, data)))
  const read = await Promise.all(Array.from({ length: 20 }, (_, index) => bytesAt(driver, `/file-${index}`)))
  t.ok(read.every((bytes) => bytes.equals(data)))
  const large = Buffer.alloc(20_000_000, 'x')
  await put(driver, '/large', large)
  const slow = await driver.read(at('/large'))
  t.equal((await driver.stat(at('/large'))).size, large.length, 'a slow reader does not block other calls')
  await driver.write(at('/copy'), { size: large.length, rereadable: false, read: async () => slow })
  t.ok((await bytesAt(driver, '/copy')).equals(large), 'one storage is read and written at once')
  await driver.close?.()
})

void t.test('FTP reports a full disk as no_space, and the old file is unchanged', { skip }, async (t) => {
  for (const start of [() => startPureFtpd(), () => startVsftpd()]) {
    const server = await started(t, start)
    const { files, path } = await emptyFolder(server)
    await run('mount', ['-t', 'tmpfs', '-o', `size=4m,uid=${server.owner}`, 'tmpfs', files])
    try {
      const driver = await open(server, path)
      await put(driver, '/file', 'old')
      const body = chunks(100, randomBytes(100_000))
      for (const name of ['/file', '/new']) await refuses(t, () => driver.write(at(name), body), 'no_space', name)
      t.same(await readdir(files), ['file'], 'no staged file is left')
      t.equal(await textAt(driver, '/file'), 'old')
      await driver.close?.()
    } finally {
      await run('umount', ['-l', files])
    }
  }
})

void t.test('FTP removes staged files of dead instances, and not those of other running ones', { skip }, async (t) => {
  const server = await started(t, () => startPureFtpd())
  const { files, path } = await emptyFolder(server)
  const instance = { name: 'this-run', isOver: (name: string) => name === 'dead-run' }
  const driver: WritableDriver = await open(server, path, {}, { instance })
  for (const of of ['dead-run', 'other-run']) await writeFile(join(files, `.~tidegate-part-${of}-0123456789ab`), 'x')
  await put(driver, '/file', 'content')
  t.same(await namesIn(driver, '/'), ['file'])
  await until(async () => (await readdir(files)).length <= 2)
  t.same((await readdir(files)).sort(), ['.~tidegate-part-other-run-0123456789ab', 'file'])
  await driver.mkdir(at('/folder'))
  await writeFile(join(files, 'folder', '.~tidegate-part-dead-run-0123456789ab'), 'x')
  await driver.remove(at('/folder'))
  t.same(
    await namesIn(driver, '/'),
    ['file'],
    'a staged file of a dead instance does not keep its folder from being removed',
  )
  await driver.close?.()
})

void t.test(
  'FTP: endless uploads leave a connection for other calls, and end with their signals',
  { skip },
  async (t) => {
    const server: FtpServer = await started(t, () => startPureFtpd({ connections: 8 }))
    const { files, path } = await emptyFolder(server)
    const driver = await open(server, path)
    const uploads = Array.from({ length: 7 }, () => endless(1_000_000))
    const writing = uploads.map((upload, index) => {
      const controller = new AbortController()
      const write = () => driver.write(at(`/file-${index}`), upload.source, { signal: controller.signal })
      return { abort: () => controller.abort(), ended: refuses(t, write, 'aborted', 'a write') }
    })
    await pause(200)
    t.same(await namesIn(driver, '/'), [], 'the eighth connection answers')
    for (const { abort } of writing) abort()
    await Promise.all(writing.map(({ ended }) => ended))
    t.same(await readdir(files), [], 'no staged file is left')
    await driver.close?.()
  },
)

void t.test(
  'FTP: a late reply to an aborted read is not taken for the reply to the next command',
  { skip },
  async (t) => {
    const server = await started(t, () => startPureFtpd())
    const { path } = await emptyFolder(server)
    let asked = 0
    const front = await startFtpFront(server.port, (command) => {
      if (command === 'NOOP' && asked++ === 0) return { answer: '500 Unknown command' }
      // As Pure-FTPd does sometimes: the code of the previous reply, with the speed of the transfer.
      if (asked === 1 && ++asked) return { before: '500 0.008 seconds (measured here), 16.42 Mbytes per second' }
      return 'pass'
    })
    t.teardown(() => front.stop())
    const driver = await open(server, path, { address: `127.0.0.1:${front.port}` })
    t.teardown(() => driver.close?.())
    await put(driver, '/file', Buffer.alloc(5_000_000))
    const stream = await driver.read(at('/file'))
    stream.destroy()
    t.equal((await driver.stat(at('/file'))).size, 5_000_000)
    t.equal((await driver.stat(at('/'))).kind, 'folder')
    t.equal(asked > 1, true, 'the command was sent again')
  },
)
