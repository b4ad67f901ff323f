/** Interrupted large uploads to SFTP and SMB servers: which bytes are resumed, and which are not relied on. */
import { randomBytes } from 'node:crypto'
import { appendFile, mkdir, mkdtemp, readdir, readlink, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { CheckpointPolicy } from '../../drivers/lib/staged-files/staged-upload.js'
import { sftpFields } from '../../drivers/sftp/index.js'
import { openSftp } from '../../drivers/sftp/sftp.js'
import { smbFields } from '../../drivers/smb/index.js'
import { openSmb } from '../../drivers/smb/smb.js'
import type { Upload } from '../../src/contract/capabilities.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { GatewayError } from '../../src/base/errors.js'
import { checkOptions } from '../../src/mounts/fields.js'
import { at, bytesAt, namesIn, refuses } from '../driver-conformance/subject.js'
import { lacks } from '../programs.js'
import { startCuttingProxy, type CuttingProxy } from '../servers/cutting-proxy.js'
import { startOpenSsh } from '../servers/openssh.js'
import { sambaPrograms, startSamba } from '../servers/samba.js'
import { testEnv } from './env.js'
import { until } from '../until.js'

const mebibyte = 1024 * 1024
const data = randomBytes(24 * mebibyte)

interface Server {
  readonly port: number
  /** A new folder of this machine that the server serves. */
  folder(): Promise<string>
  open(root: string, port: number, pace: CheckpointPolicy, env: Partial<DriverEnv>): Promise<Driver>
  stop(): Promise<void>
}

/** `words`: options of the SFTP server program. */
async function sftpServer(words?: string): Promise<Server> {
  const server = await startOpenSsh(words)
  const home = await mkdtemp(join(tmpdir(), 'tidegate-staged-'))
  return {
    port: Number(server.address.split(':')[1]),
    folder: () => mkdtemp(join(home, 'root-')),
    open: (root, port, pace, env) => {
      const { username, privateKey } = server
      const options = { address: `127.0.0.1:${port}`, username, private_key: privateKey, root_folder_path: root }
      return openSftp(checkOptions(sftpFields, options), testEnv(env), pace)
    },
    stop: async () => {
      await server.stop()
      await rm(home, { recursive: true, force: true })
    },
  }
}

async function smbServer(): Promise<Server> {
  const server = await startSamba()
  return {
    port: server.port,
    folder: () => mkdtemp(join(server.folder, 'root-')),
    open: (root, port, pace, env) => {
      const { username, password } = server
      const given = { address: `127.0.0.1:${port}`, username, password, share_name: 'files' }
      return openSmb(checkOptions(smbFields, { ...given, root_folder_path: basename(root) }), testEnv(env), pace)
    },
    stop: () => server.stop(),
  }
}

interface Stage {
  readonly root: string
  readonly proxy: CuttingProxy
  readonly driver: Driver
  /** The last reported token. */
  readonly kept: { token?: string }
  readonly begin: () => Promise<Upload>
  /** Sends until the server has committed some of the file, then cuts the connection. */
  readonly cutOff: () => Promise<void>
  /** Sends the rest. Resolves to the number of bytes that were committed before. */
  readonly goOn: () => Promise<number>
}

async function stage(t: Test, server: Server, env: Partial<DriverEnv> = {}): Promise<Stage> {
  const root = await server.folder()
  const proxy = await startCuttingProxy(server.port)
  const driver = await server.open(root, proxy.port, { interval: 20, closeTimeout: 500 }, env)
  t.teardown(async () => {
    await driver.close?.()
    await proxy.stop()
  })
  const kept: { token?: string } = {}
  const begin = async () => {
    const replace = async (token: string) => void (kept.token = token)
    const upload = await driver.upload?.(at('/large'), {
      size: data.length,
      resumeToken: kept.token,
      replaceToken: replace,
    })
    if (!upload) throw new GatewayError('unsupported')
    kept.token = upload.token
    return upload
  }
  const held = () => Number(kept.token?.split(':')[0])
  const cutOff = async () => {
    const upload = await begin()
    const body = async function* () {
      let from = 0
      for (; from < data.length && held() <= 4 * mebibyte; from += mebibyte) {
        yield data.subarray(from, from + mebibyte)
        await pause(20)
      }
      proxy.cut('up', 1)
      for (; from < data.length; from += mebibyte) yield data.subarray(from, from + mebibyte)
    }
    await refuses(
      t,
      () => upload.write(Readable.from(body(), { objectMode: false })),
      'unavailable',
      'the connection is cut',
    )
    await upload.close()
    proxy.heal()
  }
  const goOn = async () => {
    const upload = await begin()
    const { committedOffset: confirmed } = upload
    await upload.write(Readable.from([data.subarray(confirmed)], { objectMode: false }))
    await upload.commit()
    await upload.close()
    return confirmed
  }
  return { root, proxy, driver, kept, begin, cutOff, goOn }
}

/** Names of staged files on the server. */
async function stagedIn(root: string): Promise<string[]> {
  return (await readdir(root)).filter((name) => name.startsWith('.~tidegate-part-'))
}

/** Resolves when no process has the file open: a server may still write what it has received before a cut. */
async function untilClosed(file: string): Promise<void> {
  const opened = async () => {
    const processes = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
    const folders = processes.map((id) => `/proc/${id}/fd`)
    const links = folders.map(async (folder) => {
      const names = await readdir(folder).catch(() => [])
      return Promise.all(names.map((name) => readlink(join(folder, name)).catch(() => '')))
    })
    return (await Promise.all(links)).flat()
  }
  while ((await opened()).includes(file)) await pause(20)
}

for (const [name, skip, start] of [
  ['SFTP', lacks('sshd', 'ssh-keygen'), sftpServer],
  ['SMB', lacks(...sambaPrograms), smbServer],
] as const) {
  void t.test(`resumable uploads: ${name}`, { skip }, async (t) => {
    const server = await start()
    t.teardown(() => server.stop())

    await t.test('an upload resumes at the offset that the server has synced to disk', async (t) => {
      const { root, proxy, driver, cutOff, goOn } = await stage(t, server)
      await cutOff()
      t.same(await namesIn(driver, '/'), [], 'the staged file is not listed')
      const { up } = proxy.passed
      const confirmed = await goOn()
      t.ok(confirmed > 4 * mebibyte, `${confirmed} bytes were committed`)
      t.ok(proxy.passed.up - up < data.length - confirmed + mebibyte, 'they are not sent again')
      t.ok((await bytesAt(driver, '/large')).equals(data))
      t.same(await readdir(root), ['large'])
    })

    await t.test('an upload whose staged file was changed starts again', async (t) => {
      const changes: readonly ((file: string) => Promise<unknown>)[] = [
        (file) => truncate(file, mebibyte),
        (file) => appendFile(file, Buffer.alloc(data.length)),
        (file) => rm(file),
        async (file) => {
          await rm(file)
          await mkdir(file)
        },
      ]
      for (const change of changes) {
        const { root, driver, cutOff, goOn } = await stage(t, server)
        await cutOff()
        const [staged = ''] = await stagedIn(root)
        await untilClosed(join(root, staged))
        await change(join(root, staged))
        t.equal(await goOn(), 0)
        t.ok((await bytesAt(driver, '/large')).equals(data), 'the file is complete')
        t.same(await namesIn(driver, '/'), ['large'])
      }
    })

    await t.test('a staged file of a dead instance is kept while a task may resume it', async (t) => {
      const first = await stage(t, server, { instance: { name: 'dead-run', isOver: () => false } })
      await first.cutOff()
      await first.driver.close?.()
      const { root, kept } = first
      const [staged = ''] = await stagedIn(root)
      await writeFile(join(root, '.~tidegate-part-dead-run-0123456789ab'), 'x')
      const instance = { name: 'this-run', isOver: (each: string) => each === 'dead-run' }
      const tokens = new Set([kept.token ?? ''])
      const pace = { interval: 20, closeTimeout: 500 }
      const driver = await server.open(root, server.port, pace, { instance, resumableUploads: async () => [...tokens] })
      t.same(await namesIn(driver, '/'), [])
      await until(async () => (await stagedIn(root)).length <= 1)
      t.same(await stagedIn(root), [staged])
      tokens.clear()
      t.same(await namesIn(driver, '/'), [])
      await until(async () => (await stagedIn(root)).length === 0)
      t.same(await stagedIn(root), [])
      await driver.close?.()
    })
  })
}

void t.test('an upload to a server without fsync is not resumed', { skip: lacks('sshd', 'ssh-keygen') }, async (t) => {
  const server = await sftpServer('-P fsync')
  t.teardown(() => server.stop())
  const { driver, begin, goOn } = await stage(t, server)
  const upload = await begin()
  const body = async function* () {
    yield data.subarray(0, 8 * mebibyte)
    throw new GatewayError('unavailable')
  }
  await refuses(t, () => upload.write(Readable.from(body(), { objectMode: false })), 'unavailable', 'the source fails')
  await upload.close()
  t.equal(await goOn(), 0)
  t.ok((await bytesAt(driver, '/large')).equals(data))
})
