/**
 * The daemon with an additional driver: it has one file, and never responds to one kind of
 * call, even if the signal of the call aborts.
 */
import { Readable } from 'node:stream'
import { driverTypes } from '../../drivers/index.js'
import { memoryType } from '../../drivers/memory/index.js'
import type { Driver } from '../../src/contract/driver.js'
import type { AnyDriverType } from '../../src/contract/driver-type.js'
import { asPath } from '../../src/base/path.js'
import { loadConfig } from '../../src/installation/config.js'
import { startDaemon } from '../../src/process/daemon.js'
import { createLog } from '../../src/process/log.js'
import { protocols } from '../../protocols/index.js'

const { TIDEGATE_ADMIN_PASSWORD: adminPassword = 'a password for tests' } = process.env
const [data = ''] = process.argv.slice(2)

/** Keeps the process alive, like an open connection of a driver. */
function never(): Promise<never> {
  console.error('a call is stuck')
  return new Promise(() => setInterval(() => undefined, 1000))
}

/** A listing as the contract defines it: pages. */
async function* noPage(): AsyncGenerator<never> {
  yield await never()
}

const stuckCalls = { read: never, close: never, pages: noPage } satisfies Partial<Record<keyof Driver, unknown>>

const stuckTypes = Object.entries(stuckCalls).map(([name, call]): AnyDriverType => ({
  ...memoryType,
  name: `Stuck in ${name}`,
  open: async (options: never, env) => {
    const driver: Driver = await memoryType.open(options, env)
    const read = async () => Readable.from([Buffer.from('content')], { objectMode: false })
    await driver.write?.(asPath('/file'), { size: 7, rereadable: true, read }, {})
    return Object.assign(driver, { [name]: call })
  },
}))

const flags = { data, http: '127.0.0.1:0', sftp: '127.0.0.1:0' }
const config = { ...(await loadConfig({ flags, environment: process.env, protocols })), drain_seconds: 1 }
const daemon = await startDaemon(
  config,
  createLog('warn'),
  { password: adminPassword },
  { drivers: [...driverTypes, ...stuckTypes] },
)
process.on('SIGTERM', () => void daemon.stop().then(() => process.exit(0)))
console.log(`ready: http://${daemon.addresses.http} sftp://${daemon.addresses.sftp}`)
