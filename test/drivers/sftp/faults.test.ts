/**
 * Faults between the SFTP driver and its server, directly and below Crypt: cut connections at every stage, stalls, a
 * full disk, expired sessions. Results must be true, no file half-written, and no staged file left.
 */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { cryptFields, cryptType } from '../../../drivers/crypt/index.js'
import { sftpFields, sftpType } from '../../../drivers/sftp/index.js'
import type { Driver } from '../../../src/contract/driver.js'
import type { TreeDriver } from '../../../src/contract/driver-env.js'
import { GatewayError, isGatewayError } from '../../../src/base/errors.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import {
  at,
  bytesAt,
  chunks,
  namesIn,
  put,
  refuses,
  textAt,
  type WritableDriver,
} from '../../driver-conformance/subject.js'
import { lacks } from '../../programs.js'
import { startCuttingProxy, type CuttingProxy } from '../../servers/cutting-proxy.js'
import { startMinimalSftp } from '../../servers/minimal-sftp.js'
import { startOpenSsh, type OpenSshServer } from '../../servers/openssh.js'
import { altered, type Over } from '../../tree/tree-fixture.js'
import { testEnv } from '../env.js'
import { memoryState } from '../lib/cloud/vendor.js'
import { leftFiles, leftReplacement } from '../lib/staged-files/left-replacements.js'
import { until } from '../../until.js'

const run = promisify(execFile)
const mebibyte = 1024 * 1024

async function newFolder(t: Test): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'tidegate-sftp-'))
  t.teardown(() => rm(made, { recursive: true, force: true }))
  return made
}

async function openSftp(
  server: OpenSshServer,
  root: string,
  port?: number,
  over: Parameters<typeof testEnv>[0] = {},
): Promise<WritableDriver> {
  const { address, username, privateKey } = server
  const options = { address, username, private_key: privateKey, root_folder_path: root }
  const through = port === undefined ? {} : { address: `127.0.0.1:${port}` }
  return (await sftpType.open(checkOptions(sftpFields, { ...options, ...through }), testEnv(over))) as WritableDriver
}

void t.test('SFTP reports an unreachable server without its address', async (t) => {
  const reserved = createServer().listen(0, '127.0.0.1')
  await once(reserved, 'listening')
  const { port } = reserved.address() as AddressInfo
  reserved.close()
  for (const [address, cause] of [
    [`127.0.0.1:${port}`, /^the server cannot be reached: it refuses the connection$/],
    ['no-such-host.invalid:22', /^the server cannot be reached: its name (is unknown|cannot be looked up)$/],
  ] as const) {
    const options = { address, username: 'ada', password: 'word', root_folder_path: '/' }
    await t.rejects(sftpType.open(checkOptions(sftpFields, options), testEnv()), {
      code: 'unavailable',
      reason: cause,
    })
  }
})

void t.test('SFTP asks for no more than it accepts, whatever the server announces', async (t) => {
  const content = randomBytes(2 * mebibyte + 7)
  for (const read of [4 * mebibyte, 261_121, 40_000, 0]) {
    const server = await startMinimalSftp('OK', [0, read, 4 * mebibyte])
    t.teardown(() => server.stop())
    const { address } = server
    const options = checkOptions(sftpFields, { address, username: 'ada', root_folder_path: await newFolder(t) })
    const driver = (await sftpType.open(options, testEnv())) as WritableDriver
    t.teardown(() => driver.close?.())
    await put(driver, '/file', content)
    t.ok((await bytesAt(driver, '/file')).equals(content), `a stream, of ${read}`)
    for (const mode of ['read', 'update'] as const) {
      const handle = await driver.open?.(at('/file'), mode)
      const whole = Buffer.alloc(content.length + 1)
      t.equal(await handle?.read(whole, 0), content.length)
      t.ok(whole.subarray(0, content.length).equals(content), `a handle, of ${read}`)
      t.equal(await handle?.read(whole, content.length - 5), 5)
      await handle?.write?.([content], 11)
      await handle?.close()
    }
    t.equal((await driver.stat(at('/file'))).size, content.length + 11)
  }
})

void t.test('SFTP words the errors of the SSH library, and keeps them as the cause', async (t) => {
  const server = createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`
  for (const [options, expected] of [
    [{ private_key: 'no key' }, { code: 'invalid', reason: 'the private key or its passphrase is not valid' }],
    [{ password: 'word' }, { code: 'unavailable', reason: 'the SSH handshake with the server failed' }],
  ] as const) {
    const all = checkOptions(sftpFields, { address, username: 'ada', root_folder_path: '/', ...options })
    const error: unknown = await sftpType.open(all, testEnv()).catch((thrown: unknown) => thrown)
    t.match(error, { ...expected, cause: Error })
  }
})

async function openCrypt(below: Driver): Promise<WritableDriver> {
  const options = { remote_path: '/', password: 'tide', salt: 'time', filename_encryption: 'standard' }
  const refused = async () => Promise.reject(new GatewayError('unsupported'))
  const lacking: Over = { removeTree: refused, identities: refused, directUrl: refused, realPath: async (path) => path }
  const tree = altered(below, lacking) as TreeDriver
  const crypt = await cryptType.open(checkOptions(cryptFields, options), testEnv({ tree: () => tree }))
  // A composite leaves closing to the storage below.
  return Object.assign(crypt as WritableDriver, { close: () => below.close?.() })
}

interface Row {
  readonly name: string
  /** `port`: of the proxy; absent for a direct connection. */
  readonly open: (server: OpenSshServer, root: string, port?: number) => Promise<WritableDriver>
}

const rows: readonly Row[] = [
  { name: 'SFTP', open: openSftp },
  { name: 'Crypt over SFTP', open: async (...where) => openCrypt(await openSftp(...where)) },
]

const old = randomBytes(mebibyte)
const replacement = Buffer.alloc(mebibyte, 'new content ')
/** Number of offsets in the traffic of one call, in each direction, at which it is cut. */
const parts = 4
const members = Array.from({ length: 150 }, (_, index) => `member ${index}`).sort()

/** A call that is cut, and the conditions that must hold after it succeeded or failed. */
interface Stage {
  readonly name: string
  readonly work: (driver: WritableDriver) => Promise<unknown>
  readonly holds: (t: Test, straight: WritableDriver, done: { readonly result: unknown } | undefined) => Promise<void>
}

async function contentOf(driver: WritableDriver, path: string): Promise<Buffer | undefined> {
  return bytesAt(driver, path).catch((error: unknown) => {
    if (isGatewayError(error, 'not_found')) return undefined
    throw error
  })
}

const stages: readonly Stage[] = [
  {
    name: 'read',
    work: (driver) => bytesAt(driver, '/file'),
    holds: async (t, _straight, done) => {
      if (done) t.ok(old.equals(done.result as Buffer), 'the content is correct')
    },
  },
  {
    name: 'list',
    work: (driver) => namesIn(driver, '/folder'),
    holds: async (t, _straight, done) => {
      if (done) t.same(done.result, members, 'the listing is complete')
    },
  },
  {
    name: 'replace',
    work: (driver) => driver.write(at('/file'), chunks(4, replacement.subarray(0, mebibyte / 4))),
    holds: async (t, straight, done) => {
      const now = await contentOf(straight, '/file')
      const isNew = now?.length === mebibyte && !now.equals(old)
      t.ok(isNew || (!done && now?.equals(old)), 'the old file or the new one')
    },
  },
  {
    name: 'create',
    work: (driver) => driver.write(at('/new'), chunks(1, old)),
    holds: async (t, straight, done) => {
      const now = await contentOf(straight, '/new')
      t.ok(now?.equals(old) === true || (!done && now === undefined), 'the complete file or none')
    },
  },
  {
    name: 'rename',
    work: async (driver) => driver.move?.(at('/file'), at('/moved')),
    holds: async (t, straight, done) => {
      const [from, to] = [await contentOf(straight, '/file'), await contentOf(straight, '/moved')]
      t.ok((from === undefined) !== (to === undefined), 'under exactly one name')
      t.ok((to ?? from)?.equals(old), 'whole')
      if (done) t.ok(to, 'under the new name')
    },
  },
]

async function fill(driver: WritableDriver): Promise<void> {
  await driver.mkdir(at('/folder'))
  for (const name of members) await put(driver, `/folder/${name}`, '')
}

/** Waits until no connection is open. Resolves to the number of open connections. */
async function settled(proxy: CuttingProxy): Promise<number> {
  await until(() => proxy.open === 0)
  return proxy.open
}

async function litterIn(root: string): Promise<readonly string[]> {
  const litter = async () => (await readdir(root, { recursive: true })).filter((name) => name.includes('~tidegate'))
  await until(async () => (await litter()).length === 0)
  return litter()
}

const skip = lacks('sshd', 'ssh-keygen')

interface Between {
  readonly server: OpenSshServer
  readonly proxy: CuttingProxy
}

async function started(t: Test, words?: string): Promise<Between> {
  const server = await startOpenSsh(words)
  t.teardown(() => server.stop())
  const proxy = await startCuttingProxy(Number(server.address.split(':')[1]))
  t.teardown(() => proxy.stop())
  return { server, proxy }
}

// These tests spend most of their time waiting, each for its own connections.
t.jobs = 2

for (const { name, open } of rows) {
  void t.test(`${name}, on a server that fails`, { skip }, async (t) => {
    const { server, proxy } = await started(t)

    await t.test(`a connection that is cut at any stage leaves files complete and no staged file`, async (t) => {
      const root = await newFolder(t)
      const straight = await open(server, root)
      await fill(straight)
      for (const { name: stage, work, holds } of stages) {
        const reset = async () => {
          for (const path of ['/new', '/moved']) await straight.remove(at(path)).catch(() => undefined)
          await straight.write(at('/file'), chunks(1, old))
        }
        await reset()
        const whole = await open(server, root, proxy.port)
        const before = { ...proxy.passed }
        await work(whole)
        const after = { ...proxy.passed }
        await whole.close?.()
        const start = { up: 0, down: 0 }
        const fresh = { ...proxy.passed }
        const opened = await open(server, root, proxy.port)
        for (const direction of ['up', 'down'] as const) start[direction] = proxy.passed[direction] - fresh[direction]
        await opened.close?.()
        for (const direction of ['up', 'down'] as const) {
          for (let part = 0; part < parts; part++) {
            for (const times of [1, Number.POSITIVE_INFINITY]) {
              await reset()
              const driver = await open(server, root, proxy.port)
              const bytes = start[direction] + 1 + ((after[direction] - before[direction]) * part) / parts
              proxy.cut(direction, bytes, times)
              const told = await work(driver).then(
                (result) => ({ result }),
                (error: unknown) => ({ error }),
              )
              proxy.heal()
              const where = `${stage}, ${direction} after ${part}/${parts}, ${times === 1 ? 'once' : 'ever again'}`
              if ('error' in told) {
                t.ok(isGatewayError(told.error, 'unavailable', 'timeout'), `${where}: told`, { error: told.error })
              }
              await t.test(where, (t) => holds(t, straight, 'error' in told ? undefined : told))
              t.same(await litterIn(root), [], `${where}: no staged file is left`)
              t.ok(proxy.open <= 2, `${where}: few connections`)
              await driver.close?.()
            }
          }
        }
        t.equal(await settled(proxy), 0, `${stage}: no connection is left`)
      }
      await straight.close?.()
    })

    await t.test(`a stall of five seconds is tolerated, and an abort ends a stalled call`, async (t) => {
      const root = await newFolder(t)
      const driver = await open(server, root, proxy.port)
      await fill(driver)
      await driver.write(at('/file'), chunks(1, old))
      await driver.write(at('/renamed'), chunks(1, old))
      proxy.stall()
      const work = Promise.all([
        bytesAt(driver, '/file'),
        namesIn(driver, '/folder'),
        driver.write(at('/new'), chunks(1, old)),
        driver.move?.(at('/renamed'), at('/moved')),
      ])
      await pause(5000)
      proxy.heal()
      const [read, listed] = await work
      t.ok(read.equals(old))
      t.same(listed, members)
      t.ok((await bytesAt(driver, '/new')).equals(old))
      t.ok((await bytesAt(driver, '/moved')).equals(old))

      proxy.stall()
      const calls: Readonly<Record<string, (signal: AbortSignal) => Promise<unknown>>> = {
        stat: (signal) => driver.stat(at('/file'), { signal }),
        read: (signal) => driver.read(at('/file'), undefined, { signal }),
        list: (signal) => driver.pages(at('/folder'), { signal })[Symbol.asyncIterator]().next(),
        write: (signal) => driver.write(at('/other'), chunks(4, old), { signal }),
        move: async (signal) => driver.move?.(at('/new'), at('/newer'), { signal }),
      }
      const begin = Date.now()
      await Promise.all(
        Object.entries(calls).map(([call, ask]) =>
          refuses(t, () => ask(AbortSignal.timeout(200)), 'aborted', `a stalled ${call}`),
        ),
      )
      t.ok(Date.now() - begin < 10_000, 'before the driver’s own timeout')
      const stalled = driver.stat(at('/file'))
      setTimeout(() => void driver.close?.(), 100)
      await refuses(t, () => stalled, 'aborted', 'a stalled call when the driver closes')
      proxy.heal()
      t.equal(await settled(proxy), 0, 'no connection is left')
    })

    await t.test(`any call after an expired session opens a new one`, async (t) => {
      const root = await newFolder(t)
      const driver = await open(server, root, proxy.port)
      const calls: readonly (() => Promise<unknown> | undefined)[] = [
        () => driver.mkdir(at('/folder')),
        () => put(driver, '/file', 'content'),
        () => textAt(driver, '/file'),
        () => namesIn(driver, '/folder'),
        () => driver.move?.(at('/file'), at('/moved')),
        () => driver.remove(at('/moved')),
      ]
      for (const call of calls) {
        proxy.drop()
        await call()
      }
      t.same(await namesIn(driver, '/'), ['folder'])
      // The connection is broken, but the driver has not noticed yet.
      for (const call of calls.slice(1)) {
        proxy.cut('up', 1, 1)
        await call()
        proxy.heal()
      }
      t.same(await namesIn(driver, '/'), ['folder'])
      await driver.close?.()
    })

    const needsRoot = process.getuid?.() === 0 ? lacks('findmnt') : 'only root mounts file systems'
    await t.test(
      `a full disk is reported as no_space, and the old file is unchanged`,
      { skip: needsRoot },
      async (t) => {
        const root = await newFolder(t)
        await run('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', root])
        t.teardown(() => run('umount', ['-l', root]))
        const driver = await open(server, root)
        await put(driver, '/file', 'old')
        for (const path of ['/file', '/new']) {
          await refuses(t, () => driver.write(at(path), chunks(8, old)), 'no_space', path)
        }
        const handle = await driver.open?.(at('/file'), 'replace')
        if (handle) {
          const write = async () => {
            for (let index = 0; index < 8; index++) await handle.write?.([old], index * mebibyte)
          }
          await refuses(t, write, 'no_space', 'a handle')
          await handle.close()
        }
        t.equal(await textAt(driver, '/file'), 'old')
        t.same(await namesIn(driver, '/'), ['file'])
        t.same(await litterIn(root), [])
        await put(driver, '/file', 'there is room again')
        await driver.close?.()
      },
    )
  })
}

void t.test(
  'SFTP reports a connection that is reset before the greeting as unavailable, without a later error',
  async (t) => {
    const server = createServer((socket) => void setTimeout(() => socket.resetAndDestroy(), 20))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => server.close())
    const options = { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, username: 'ann', password: 'x' }
    const opened = async () => sftpType.open(checkOptions(sftpFields, options), testEnv())
    await refuses(t, opened, 'unavailable', 'opening the driver')
    // The library emits its late errors now.
    await pause(50)
  },
)

void t.test('SFTP reports revoked credentials as denied, without repeated sign-ins', { skip }, async (t) => {
  const { server, proxy } = await started(t)
  const root = await newFolder(t)
  const driver = await openSftp(server, root, proxy.port)
  await writeFile(server.authorizedKeys, '')
  proxy.drop()
  await refuses(t, () => driver.stat(at('/')), 'denied', 'the next sign-in')
  await refuses(t, () => put(driver, '/file', 'x'), 'denied', 'a write')
  await driver.close?.()
  t.equal(await settled(proxy), 0, 'no connection is left')
})

void t.test('SFTP replaces a file without losing the old one on servers without posix-rename', { skip }, async (t) => {
  const { server, proxy } = await started(t, '-P posix-rename')
  const root = await newFolder(t)
  const straight = await openSftp(server, root)
  const fresh = { ...proxy.passed }
  const opened = await openSftp(server, root, proxy.port)
  const start = proxy.passed.up - fresh.up
  await put(opened, '/file', 'old')
  await put(opened, '/file', 'old')
  const length = proxy.passed.up - fresh.up
  await opened.close?.()
  for (let bytes = start; bytes < length; bytes += 80) {
    await put(straight, '/file', 'old')
    const driver = await openSftp(server, root, proxy.port)
    proxy.cut('up', bytes, 1)
    const isDone = await put(driver, '/file', 'new').then(
      () => true,
      () => false,
    )
    t.same(await litterIn(root), [], `cut after ${bytes - start}: no staged file is left`)
    const now = await textAt(straight, '/file')
    t.ok(now === 'new' || (now === 'old' && !isDone), `cut after ${bytes - start}: ${now}, ${isDone}`)
    proxy.heal()
    await driver.close?.()
  }
  await straight.close?.()
})

void t.test('SFTP settles a replacement that a killed run has left, and loses neither file', { skip }, async (t) => {
  const { server } = await started(t, '-P posix-rename')
  for (const { files, content, left } of leftFiles) {
    const root = await newFolder(t)
    for (const [name, text] of Object.entries(files)) await writeFile(join(root, name), text)
    const { state, values } = memoryState()
    await state.set('replacing', JSON.stringify([leftReplacement]))
    const driver = await openSftp(server, root, undefined, { state })
    t.equal(await textAt(driver, '/file'), content, Object.keys(files).join(' and '))
    t.same(await namesIn(driver, '/'), left)
    t.same((await readdir(root)).sort(), left)
    t.notOk(values.has('replacing'), 'nothing is left to do')
    await driver.close?.()
  }
})

void t.test('SFTP keeps the old file if its name is taken while it is replaced', { skip }, async (t) => {
  const { server } = await started(t, '-P posix-rename')
  const root = await newFolder(t)
  const { state } = memoryState()
  const taking: typeof state = {
    ...state,
    journal: (name) => {
      const journal = state.journal(name)
      const entry = () => {
        const inner = journal.entry()
        const set = async (value: unknown) => {
          await inner.set(value)
          // The name becomes free, and another client takes it.
          if (value !== undefined) void takeWhenFree()
        }
        return { ...inner, set }
      }
      return { ...journal, entry }
    },
  }
  let isDone = false
  const takeWhenFree = async () => {
    while (!isDone) {
      const taking = writeFile(join(root, 'file'), 'other', { flag: 'wx' })
      if (await taking.then(() => true).catch(() => false)) return
    }
  }
  const driver = await openSftp(server, root, undefined, { state: taking })
  await put(driver, '/file', 'old')
  await put(driver, '/file', 'new').catch(() => undefined)
  isDone = true
  const texts = await Promise.all((await readdir(root)).map((name) => readFile(join(root, name), 'utf8')))
  t.ok(texts.includes('old') || texts.includes('new'), texts.join(' and '))
  await driver.close?.()
})
