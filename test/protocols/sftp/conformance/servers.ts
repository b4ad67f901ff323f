/** The servers that the suite runs against: OpenSSH's, and Tidegate over storages with different capabilities. */
import { spawn } from 'node:child_process'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Duplex } from 'node:stream'
import type { Client } from 'ssh2'
import type { Test } from 'tap'
import { localType } from '../../../../drivers/local/index.js'
import { MemoryDriver } from '../../../../drivers/memory/memory.js'
import { permissionBits } from '../../../../src/accounts/principal.js'
import type { Driver } from '../../../../src/contract/driver.js'
import type { AnyDriverType } from '../../../../src/contract/driver-type.js'
import { configSchema } from '../../../../src/installation/config.js'
import { Gateway } from '../../../../src/gateway/gateway.js'
import { createLog } from '../../../../src/process/log.js'
import { altered, bare } from '../../../tree/tree-fixture.js'
import { PacketClient } from '../packet-client.js'
import { openChannel, password, serveProtocol } from '../server-fixture.js'
import { protocols } from '../../../../protocols/index.js'

/** The kinds of a server, which select rows of the table of differences; none for OpenSSH's server. */
export type Kind = 'any storage' | 'without symlinks' | 'without handles'

export interface Server {
  readonly name: string
  readonly kinds: readonly Kind[]
  /** The prefix of its paths, without a trailing slash. */
  readonly root: string
  /** A session before INIT. `readOnly`: of a user who may not change anything. */
  connect(readOnly?: boolean): Promise<PacketClient<Duplex>>
}

export const opensshServer = '/usr/lib/openssh/sftp-server'

/** The program that sshd starts: its standard streams are the packets. */
export async function openssh(t: Test): Promise<Server> {
  const root = await realpath(await mkdtemp(join(tmpdir(), 'tidegate-openssh-')))
  t.teardown(() => rm(root, { recursive: true, force: true }))
  const connect = async (readOnly = false) => {
    const options = ['-u', '022', '-l', 'QUIET', '-d', root, ...(readOnly ? ['-R'] : [])]
    const child = spawn(opensshServer, options, {
      stdio: ['pipe', 'pipe', 'ignore'],
      env: { ...process.env, HOME: root },
    })
    t.teardown(() => child.kill('SIGKILL'))
    const stream = Duplex.from({ readable: child.stdout, writable: child.stdin })
    // Tests observe the end of the process, not the error of its pipe.
    stream.on('error', () => undefined)
    child.once('close', () => stream.destroy())
    return new PacketClient(stream)
  }
  return { name: "OpenSSH's sftp-server", kinds: [], root, connect }
}

export async function tidegate(t: Test, storage: 'Local' | 'Memory' | 'streams alone'): Promise<Server> {
  const config = { ...configSchema(protocols).parse({ sftp: 'off' }), data: join(t.testdir(), 'data') }
  const drivers = [storage === 'Local' ? localType : mounted(storage === 'Memory' ? memory : streams)]
  const gateway = await Gateway.open({ config, log: createLog('silent'), drivers, protocols, admin: { password } })
  t.teardown(() => gateway.close())
  const protocol = await serveProtocol(t, gateway, { sessions: 100_000 })
  const reader = { username: 'reader', password, basePath: '/', role: 'general' as const, disabled: false, ssoId: '' }
  await gateway.accounts.users.create({ ...reader, permission: permissionBits.sftpRead })
  const clients = new Map<boolean, Client>([
    [false, await protocol.connect()],
    [true, await protocol.connect({ username: 'reader' })],
  ])
  const kinds: Record<typeof storage, readonly Kind[]> = {
    Local: ['any storage'],
    Memory: ['without symlinks', 'any storage'],
    'streams alone': ['without handles', 'without symlinks', 'any storage'],
  }
  return {
    name: `Tidegate on ${storage}`,
    kinds: kinds[storage],
    root: '',
    connect: async (readOnly = false) => new PacketClient(await openChannel(clients.get(readOnly)!)),
  }
}

const memory = (): Driver => new MemoryDriver(0)
const streams = (): Driver => altered(new MemoryDriver(0), bare)

/** The first run mounts a driver of this name at the root. */
function mounted(open: () => Driver): AnyDriverType {
  const fields = { root_folder_path: { type: 'string', default: '' } } as const
  return { name: 'Local', fields, open: async () => open() }
}
