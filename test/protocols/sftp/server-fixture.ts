/** A gateway with an SFTP protocol over a storage in memory, and clients for it. */
import ssh2, { type ClientChannel, type Client, type ConnectConfig } from 'ssh2'
import type { Test } from 'tap'
import type { ProtocolServer } from '../../../protocols/lib/listen.js'
import { sftpServer, type SftpLimits } from '../../../protocols/sftp/server.js'
import { allPermissions } from '../../../src/accounts/principal.js'
import type { Gateway } from '../../../src/gateway/gateway.js'
import { generateKeyPair } from '../../../protocols/sftp/host-keys.js'
import { startGateway } from '../../gateway.js'
import { packetClient } from './packet-client.js'

export const password = 'correct horse'

export interface Running {
  readonly gateway: Gateway
  readonly protocol: ProtocolServer
  readonly port: number
  /** Signs in as the user ada, who has all permissions, by default. */
  connect(options?: ConnectConfig): Promise<Client>
}

/** A new gateway with an SFTP protocol whose limits the test can set, and which it can stop. */
export async function startProtocol(t: Test, limits: Partial<SftpLimits> = {}): Promise<Running> {
  const { gateway } = await startGateway(t, { config: { sftp: 'off' }, driver: { name: 'Memory' } })
  return serveProtocol(t, gateway, limits)
}

/** As `startProtocol`, for a gateway that the test has started. */
export async function serveProtocol(t: Test, gateway: Gateway, limits: Partial<SftpLimits> = {}): Promise<Running> {
  await gateway.accounts.users.create({
    username: 'ada',
    password,
    basePath: '/',
    role: 'general',
    permission: allPermissions,
    disabled: false,
    ssoId: '',
  })
  const hostKeys = [(await generateKeyPair('ed25519', { comment: 'test' })).private]
  const protocol = sftpServer(gateway, { host: '127.0.0.1', port: 0, hostKeys, limits })
  const address = await protocol.start()
  const port = Number(address.slice(address.lastIndexOf(':') + 1))
  t.teardown(() => protocol.stop(AbortSignal.abort()))
  const connect = async (options: ConnectConfig = {}) => {
    const client = new ssh2.Client()
    t.teardown(() => client.end())
    await new Promise<void>((resolve, reject) => {
      client.once('ready', resolve).on('error', reject)
      // Before the sign-in it may close without an error.
      client.once('close', () => reject(new Error('the connection was closed')))
      client.connect({ host: '127.0.0.1', port, username: 'ada', password, ident: packetClient, ...options })
    })
    return client
  }
  return { gateway, protocol, port, connect }
}

/** The byte stream of an SFTP channel. */
export function openChannel(client: Client): Promise<ClientChannel> {
  return new Promise((resolve, reject) => {
    client.subsys('sftp', (error, channel) => {
      if (error) reject(error)
      else resolve(channel)
    })
  })
}
