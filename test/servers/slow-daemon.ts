/**
 * The daemon with an additional driver: a local folder with slow reads, writes and removals, which logs each
 * transferred range in `bytes.log` of the data folder, in lines of direction, offset and length.
 */
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline, Transform, type Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import { driverTypes } from '../../drivers/index.js'
import { localType } from '../../drivers/local/index.js'
import type { Driver } from '../../src/contract/driver.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { loadConfig } from '../../src/installation/config.js'
import { startDaemon } from '../../src/process/daemon.js'
import { createLog } from '../../src/process/log.js'
import { protocols } from '../../protocols/index.js'

const { TIDEGATE_ADMIN_PASSWORD: adminPassword = 'a password for tests' } = process.env
const [data = ''] = process.argv.slice(2)
const log = join(data, 'bytes.log')

const slow: AnyDriverType = {
  ...localType,
  name: 'Slow',
  open: async (options: never, env) => wrapped(await localType.open(options, env)),
}

function wrapped(driver: Driver): Driver {
  const over: Partial<Driver> = {
    read: async (path, range, options) => slowly('read', await driver.read(path, range, options), range?.offset ?? 0),
    upload: async (path, plan, options) => {
      const upload = await (driver as Required<Driver>).upload(path, plan, options)
      const { committedOffset: confirmed } = upload
      return { ...upload, write: (from) => upload.write(slowly('written', from, confirmed)) }
    },
    remove: async (path, options) => {
      await pause(20)
      await driver.remove?.(path, options)
    },
  }
  return new Proxy(driver, {
    get(target, name: keyof Driver) {
      const value: unknown = over[name] ?? Reflect.get(target, name)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

/** About 50 MB per second. */
function slowly(what: string, stream: Readable, start: number): Readable {
  let at = start
  const slowed = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      appendFileSync(log, `${what} ${at} ${chunk.length}\n`)
      at += chunk.length
      void pause(chunk.length / 50_000).then(() => done(null, chunk))
    },
  })
  return pipeline(stream, slowed, () => undefined)
}

const config = await loadConfig({
  flags: { data, http: '127.0.0.1:0', sftp: '127.0.0.1:0' },
  environment: process.env,
  protocols,
})
const daemon = await startDaemon(
  config,
  createLog('error'),
  { password: adminPassword },
  { drivers: [...driverTypes, slow] },
)
process.on('SIGTERM', () => void daemon.stop().then(() => process.exit(0)))
console.log(`ready: http://${daemon.addresses.http} sftp://${daemon.addresses.sftp}`)
