/** The log lines about errors that no operation on the tree has logged. */
import type { Socket } from 'node:net'
import { Duplex, PassThrough } from 'node:stream'
import type { ServerChannel } from 'ssh2'
import t from 'tap'
import { ByteBudget, HeldBytes } from '../../../protocols/sftp/byte-budget.js'
import type { SftpFileSystem } from '../../../protocols/sftp/file-system.js'
import { ReadGate } from '../../../protocols/sftp/read-gate.js'
import { SftpSession } from '../../../protocols/sftp/session.js'
import { GatewayError } from '../../../src/base/errors.js'
import { FairShare } from '../../../src/base/fair-share.js'
import type { Log } from '../../../src/base/log.js'
import type { WritableTreeFile } from '../../../src/tree/virtual-fs.js'
import {
  flags,
  names,
  noAttributes,
  PacketClient,
  permissions,
  status,
  string,
  types,
  uint32,
  uint64,
} from './packet-client.js'

/** A session over a file system of the test. */
async function serve(fs: Partial<SftpFileSystem>, log: Log) {
  const [toServer, toClient] = [new PassThrough(), new PassThrough()]
  const channel = Duplex.from({ readable: toServer, writable: toClient })
  const nothing = () => undefined as unknown as Socket
  const served = new SftpSession(
    Object.assign(channel, { exit: nothing }) as unknown as ServerChannel,
    { cork: nothing, uncork: nothing, writableLength: 0 } as unknown as Socket,
    {
      fs: fs as SftpFileSystem,
      owner: { id: 1, name: 'ada' },
      revoked: new AbortController().signal,
      log,
      readGate: new ReadGate({ pause: nothing, resume: nothing }),
      handleLimit: 10,
      symlinkOrder: 'target first',
      budget: new ByteBudget(1_000_000),
      unread: new HeldBytes(new FairShare(1_000_000), 1),
      publishesPartialUploads: () => false,
      onIdle: () => undefined,
    },
  )
  const client = new PacketClient(Duplex.from({ readable: toClient, writable: toServer }))
  await client.start()
  return { served, client }
}

void t.test('the line about an unexpected error has the request, its path and the user', async (t) => {
  const unexpected = new TypeError('secret')
  const fails = () => Promise.reject(unexpected)
  const entry = { name: 'file', kind: 'file', size: 1, modified: new Date() } as const
  const file: Partial<WritableTreeFile> = { entry, read: fails, sync: fails, close: async () => undefined }
  const fs: Partial<SftpFileSystem> = {
    open: async () => file as WritableTreeFile,
    stat: fails,
    mkdir: fails,
    move: fails,
    usage: fails,
  }
  const lines: object[] = []
  const log = { error: (details: object, message: string) => lines.push({ ...details, message }) } as unknown as Log
  const { served, client } = await serve(fs, log)
  const handle = string(await client.mustOpen('/d/file', flags.read))
  const asked = [
    { request: 'stat', path: '/d/x', answer: client.ask(names.stat, string('d/x')) },
    { request: 'mkdir', path: '/new', answer: client.ask(names.mkdir, string('/new'), noAttributes) },
    { request: 'rename', path: '/a', answer: client.ask(names.rename, string('/a'), string('/b')) },
    { request: 'read', path: '/d/file', answer: client.ask(types.read, handle, uint64(0), uint32(1)) },
    { request: 'statvfs@openssh.com', path: '/d', answer: client.extended('statvfs@openssh.com', string('/d')) },
    { request: 'fstatvfs@openssh.com', path: '/d/file', answer: client.extended('fstatvfs@openssh.com', handle) },
  ]
  for (const { answer, ...details } of asked) {
    const { body } = await answer
    t.equal(body.readUInt32BE(0), status.failure)
    t.notMatch(body.toString(), /secret/)
    const line = lines.find((each) => (each as { readonly request?: string }).request === details.request)
    t.strictSame(line, { user: 'ada', ...details, err: unexpected, message: 'internal error' })
  }
  t.equal(lines.length, asked.length)
  await client.ask(types.read, string('none'), uint64(0), uint32(1))
  t.equal(lines.length, asked.length, 'an error of the client is not logged')
  served.abort()
  await served.filesClosed
})

void t.test('MKDIR succeeds where the storage has no modes, and reports other errors', async (t) => {
  let failure = new GatewayError('unsupported', { reason: 'this storage cannot set attributes here' })
  const made: string[] = []
  const fs: Partial<SftpFileSystem> = {
    mkdir: async (path) => void made.push(path),
    setAttributes: () => Promise.reject(failure),
  }
  const told: unknown[] = []
  const log = { error: () => undefined, info: (details: unknown) => told.push(details) }
  const { served, client } = await serve(fs, log as unknown as Log)
  t.equal(await client.status(names.mkdir, string('/private'), permissions(0o700)), status.ok)
  t.same(told, [{ path: '/private', mode: 0o700 }])
  failure = new GatewayError('denied')
  t.equal(await client.status(names.mkdir, string('/refused'), permissions(0o700)), status.denied)
  failure = new GatewayError('unavailable')
  t.equal(await client.status(names.mkdir, string('/broken'), permissions(0o700)), status.failure)
  t.equal(await client.status(names.mkdir, string('/usual'), noAttributes), status.ok)
  t.same(made, ['/private', '/refused', '/broken', '/usual'])
  served.abort()
  await served.filesClosed
})

void t.test('a request that the handle is not for is refused with its operation and path', async (t) => {
  const entry = { name: 'file', kind: 'file', size: 1, modified: new Date() } as const
  const file: Partial<WritableTreeFile> = { entry, close: async () => undefined }
  const { served, client } = await serve({ open: async () => file as WritableTreeFile }, {} as unknown as Log)
  const handle = string(await client.mustOpen('/d/file', flags.read))
  for (const [type, message, ...fields] of [
    [types.write, 'write: /d/file: the handle was not opened to write', uint64(0), string('x')],
    [names.readdir, 'list: /d/file: the handle belongs to a file'],
    [types.fsetstat, 'truncate: /d/file: the handle was not opened to write', uint32(1), uint64(5)],
  ] as const) {
    const { body } = await client.ask(type, handle, ...fields)
    t.match(body.toString(), message)
  }
  served.abort()
  await served.filesClosed
})
