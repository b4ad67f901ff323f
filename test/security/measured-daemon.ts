/**
 * The daemon as a separate process that measures its main thread: `fork(program, [data folder])`. It reports its URL,
 * then executes orders one by one. It measures processor time, because elapsed time depends on the load of the machine.
 */
import { openSync, readSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import { allPermissions, permissionBits } from '../../src/accounts/principal.js'
import { root } from '../../src/base/path.js'
import { configSchema } from '../../src/installation/config.js'
import { startDaemon } from '../../src/process/daemon.js'
import { createLog } from '../../src/process/log.js'
import { protocols } from '../../protocols/index.js'

/**
 * `longest`: milliseconds of processor time of the longest turn since the last order. `tokens`: new tokens of the
 * admin, and of a reader who sees no hidden entries. `restore`: restores the initial rules, storages, accounts and
 * settings.
 */
export type Order = 'longest' | 'tokens' | 'restore'

export interface Answers {
  readonly url: string
  readonly longest: number
  /** Milliseconds of processor time of all threads since the last order. */
  readonly spent: number
  readonly admin: string
  readonly reader: string
}

class TurnClock {
  readonly #file = openSync('/proc/thread-self/schedstat', 'r')
  readonly #buffer = Buffer.alloc(64)
  #before = this.#now()
  #longest = 0

  constructor() {
    // The event loop runs a due timer once in each turn.
    setInterval(() => {
      this.#tick()
    }, 1)
  }

  /** Processor time of this thread in milliseconds. */
  #now(): number {
    const length = readSync(this.#file, this.#buffer, 0, this.#buffer.length, 0)
    return Number(this.#buffer.toString('latin1', 0, length).split(' ')[0]) / 1e6
  }

  #tick(): void {
    const now = this.#now()
    this.#longest = Math.max(this.#longest, now - this.#before)
    this.#before = now
  }

  longest(): number {
    this.#tick()
    const longest = this.#longest
    this.#longest = 0
    return longest
  }
}

const password = 'a password for tests'
const [data = ''] = process.argv.slice(2)
// Requests come from different addresses, so that the limit of sign-ins does not reject them.
const file = { http: '127.0.0.1:0', sftp: 'off', drain_seconds: 1, trusted_proxies: ['127.0.0.1'] }
const daemon = await startDaemon({ ...configSchema(protocols).parse(file), data }, createLog('fatal'), { password })
const { accounts, rules, search, settings, storages } = daemon.gateway

const own = settings.rows().filter(({ flag, key }) => flag !== 'readonly' && key !== 'index_progress')
const initial = new Map([...own.map(({ key, value }) => [key, value] as const), ['search_index', 'database']])
await settings.set(initial)
await search.idle()
await search.build()
await search.idle()
const permission = allPermissions & ~permissionBits.seeHidden
const { id: readerId } = await accounts.users.create({
  ...{ username: 'reader', password, basePath: root, role: 'general', disabled: false, ssoId: '' },
  permission,
})
/** The account that requests change. */
const { id: lastUser } = await accounts.users.create({
  ...{ username: 'changed', password, basePath: root, role: 'general', disabled: false, ssoId: '' },
  permission,
})
const mounted = storages.list()

async function restore(): Promise<void> {
  for (const { id } of rules.list()) await rules.delete(id)
  for (const row of storages.list()) {
    const before = mounted.find(({ id }) => id === row.id)
    if (before === undefined) await storages.delete(row.id)
    else if (!isDeepStrictEqual({ ...row, modified: before.modified }, before)) await storages.update(row.id, before)
  }
  for (const { id } of accounts.users.list()) if (id > lastUser) await accounts.users.delete(id)
  for (const { flag, key } of settings.rows()) if (flag === 'deprecated') await settings.delete(key)
  await settings.set(initial)
}

let signIns = 0

async function token(id: number, username: string): Promise<string> {
  await accounts.users.update(id, { username, password, otpSecret: '' })
  const address = `198.51.100.${++signIns % 256}`
  return accounts.signIn.issueToken({ username, password: { plain: password }, code: undefined, address })
}

const clock = new TurnClock()
let before = process.cpuUsage()

function spent(): number {
  const { user, system } = process.cpuUsage(before)
  before = process.cpuUsage()
  return (user + system) / 1000
}

async function answer(order: Order): Promise<Partial<Answers>> {
  if (order === 'longest') return { longest: clock.longest(), spent: spent() }
  if (order === 'restore') {
    await restore()
    return {}
  }
  const admin = await token(accounts.users.byUniqueRole('admin')?.id ?? 0, 'admin')
  return { admin, reader: await token(readerId, 'reader') }
}

process.on('message', (order: Order) => {
  void answer(order).then((answers) => process.send?.(answers))
})
process.on('disconnect', () => {
  void daemon.stop().then(() => process.exit(0))
})
process.send?.({ url: `http://${daemon.addresses.http}` } satisfies Partial<Answers>)
