/** A gateway with an SFTP door over storages in memory, and clients for it. */
import { join } from 'node:path'
import ssh2, { type ClientChannel, type Client as Ssh, type ConnectConfig } from 'ssh2'
import type { TAP } from 'tap'
import { memoryType } from '../../../drivers/memory/index.js'
import { sftpDoor, type SftpDoor, type SftpLimits } from '../../../protocols/sftp/door.js'
import { configSchema } from '../../../src/config.js'
import type { AnyDriverType } from '../../../src/driver.js'
import { Gateway } from '../../../src/gateway.js'
import { createLog } from '../../../src/log.js'
import { asPath } from '../../../src/path.js'
import { allPermissions } from '../../../src/principal.js'
import { openStore } from '../../../src/store/store.js'

export type Test = Pick<TAP, 'testdir' | 'teardown'>

export const hostKey = ssh2.utils.generateKeyPairSync('ed25519').private
export const password = 'correct horse'

export interface Running {
  readonly gateway: Gateway
  readonly door: SftpDoor
  readonly port: number
  /** Of the user ada, who may do everything. */
  connect(options?: Partial<ConnectConfig>): Promise<Ssh>
}

export interface RunningOptions {
  readonly limits?: Partial<SftpLimits>
  readonly driver?: AnyDriverType
  readonly addition?: object
}

export async function startDoor(
  t: Test,
  { limits, driver = memoryType, addition }: RunningOptions = {},
): Promise<Running> {
  const data = t.testdir()
  const store = await openStore(join(data, 'data.db'))
  await store.storages.insert({
    mountPath: asPath('/'),
    order: 0,
    driver: driver.name,
    cacheExpiration: 30,
    customCachePolicies: '',
    status: '',
    addition: JSON.stringify(addition ?? {}),
    remark: '',
    modified: new Date(),
    disabled: false,
    disableIndex: false,
    enableSign: false,
    orderBy: 'name',
    orderDirection: 'asc',
    extractFolder: '',
    webProxy: false,
    webdavPolicy: 'native_proxy',
    proxyRange: false,
    downProxyUrl: '',
    disableProxySign: false,
  })
  await store.close()
  const config = { ...configSchema.parse({}), data }
  const gateway = await Gateway.open({ config, log: createLog('silent'), drivers: [driver], adminPassword: password })
  await gateway.accounts.users.create({
    username: 'ada',
    password,
    basePath: '/',
    role: 0,
    permission: allPermissions,
    disabled: false,
    ssoId: '',
  })
  const door = sftpDoor(gateway, { host: '127.0.0.1', port: 0, hostKeys: [hostKey], limits: limits ?? {} })
  const { address } = await door.start()
  const port = Number(address.slice(address.lastIndexOf(':') + 1))
  const clients: Ssh[] = []
  t.teardown(async () => {
    for (const client of clients) client.end()
    await door.stop(AbortSignal.abort())
    await gateway.close()
  })
  return {
    gateway,
    door,
    port,
    connect: async (options = {}) => {
      const client = new ssh2.Client()
      clients.push(client)
      await new Promise<void>((resolve, reject) => {
        client.once('ready', resolve).on('error', reject)
        client.connect({ host: '127.0.0.1', port, username: 'ada', password, ...options })
      })
      return client
    },
  }
}

/** The bytes of an SFTP channel, without any client library in between. */
export function openChannel(client: Ssh): Promise<ClientChannel> {
  return new Promise((resolve, reject) => {
    client.subsys('sftp', (error, channel) => {
      if (error) reject(error)
      else resolve(channel)
    })
  })
}
