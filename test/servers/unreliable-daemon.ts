/** The daemon with an additional driver: a local folder whose calls and streams fail at random. */
import { Readable } from 'node:stream'
import { driverTypes } from '../../drivers/index.js'
import { localType } from '../../drivers/local/index.js'
import type { Driver } from '../../src/contract/driver.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { GatewayError } from '../../src/base/errors.js'
import { loadConfig } from '../../src/installation/config.js'
import { startDaemon } from '../../src/process/daemon.js'
import { createLog } from '../../src/process/log.js'
import { protocols } from '../../protocols/index.js'

/** The fraction of calls, and of streams, that fail. */
const share = 0.02
const fails = () => Math.random() < share
const failure = () => new GatewayError('unavailable', { reason: 'it does not answer' })

const unreliable: AnyDriverType = {
  ...localType,
  name: 'Unreliable',
  open: async (options: never, env) => wrapped(await localType.open(options, env)),
}

function wrapped(driver: Driver): Driver {
  const struck = new Set<keyof Driver>(['stat', 'read', 'write', 'upload', 'mkdir', 'remove', 'setAttributes'])
  return new Proxy(driver, {
    get(target, name: keyof Driver) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      const method = value as (...args: unknown[]) => unknown
      if (!struck.has(name)) return method.bind(target)
      return async (...args: unknown[]) => {
        if (fails()) throw failure()
        const answer = await method.apply(target, args)
        // The caller could not close an upload that has been opened.
        if (name !== 'upload' && fails()) throw failure()
        return answer instanceof Readable && fails() ? brokenOff(answer) : answer
      }
    },
  })
}

function brokenOff(stream: Readable): Readable {
  const bytes = async function* () {
    let left = Math.floor(Math.random() * 500_000)
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      yield chunk
      left -= chunk.length
      if (left < 0) throw failure()
    }
  }
  return Readable.from(bytes(), { objectMode: false }).once('close', () => stream.destroy())
}

const [data = ''] = process.argv.slice(2)
const config = await loadConfig({
  flags: { data, http: '127.0.0.1:0', sftp: '127.0.0.1:0' },
  environment: process.env,
  protocols,
})
const { TIDEGATE_ADMIN_PASSWORD: adminPassword = 'a password for tests' } = process.env
const daemon = await startDaemon(
  config,
  createLog('error'),
  { password: adminPassword },
  { drivers: [...driverTypes, unreliable] },
)
process.on('SIGTERM', () => void daemon.stop().then(() => process.exit(0)))
console.log(`ready: http://${daemon.addresses.http} sftp://${daemon.addresses.sftp}`)
