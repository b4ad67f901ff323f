/**
 * An SFTP server of the mandatory requests only, over the files of this machine: it has no extensions, and no request
 * sets attributes.
 */
import { once } from 'node:events'
import { constants } from 'node:fs'
import { lstat, mkdir, open, readdir, rename, rmdir, stat, unlink, type FileHandle } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import ssh2, { type SFTPWrapper } from 'ssh2'
import { generateKeyPair } from '../../protocols/sftp/host-keys.js'
import { string, uint32, uint64 } from '../protocols/sftp/packet-client.js'

const { Server, utils } = ssh2
const { STATUS_CODE: status, OPEN_MODE: flag } = utils.sftp

export interface MinimalSftpServer {
  readonly address: string
  stop(): Promise<void>
}

type Status = keyof typeof status

/** Bytes of packets, of READ and of WRITE, as `limits@openssh.com` has them. 0: no limit is told. */
type Limits = readonly [packet: number, read: number, write: number]

/**
 * `settingAttributes`: the status of SETSTAT and FSETSTAT, neither of which does anything, or what returns the next
 * one. `limits`: announced by the server, which answers a READ of any size, as AsyncSSH does.
 */
export async function startMinimalSftp(
  settingAttributes: Status | (() => Status),
  limits?: Limits,
): Promise<MinimalSftpServer> {
  const { private: hostKey } = await generateKeyPair('ed25519', { comment: 'test' })
  const server = new Server({ hostKeys: [hostKey] }, (client) => {
    client.on('error', () => undefined)
    client.on('authentication', (context) => context.accept())
    client.on('session', (accept) => {
      accept().on('sftp', (acceptSftp) => {
        const sftp = acceptSftp()
        if (limits) announce(sftp, limits)
        serve(sftp, typeof settingAttributes === 'string' ? () => settingAttributes : settingAttributes)
      })
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: async () => {
      server.close()
    },
  }
}

interface Protocol {
  channelData(channel: number, packet: Buffer): void
}

/** The library's server announces no extensions: the first packet that it sends, VERSION, is replaced. */
function announce(sftp: SFTPWrapper, limits: Limits): void {
  const { outgoing, _protocol: protocol } = sftp as unknown as { outgoing: { id: number }; _protocol: Protocol }
  const send = (type: number, ...fields: readonly Buffer[]) => {
    const body = Buffer.concat([Buffer.from([type]), ...fields])
    protocol.channelData(outgoing.id, string(body))
  }
  const channelData = () => {
    Reflect.set(sftp, '_protocol', protocol)
    send(2, uint32(3), string('limits@openssh.com'), string('1'))
  }
  Reflect.set(sftp, '_protocol', Object.create(protocol, { channelData: { value: channelData } }))
  sftp.on('EXTENDED', (id, name) => {
    if (name === 'limits@openssh.com') send(201, uint32(id), ...[...limits, 0].map(uint64))
    else sftp.status(id, status.OP_UNSUPPORTED)
  })
}

function serve(sftp: SFTPWrapper, settingAttributes: () => Status): void {
  const files = new Map<number, FileHandle>()
  const folders = new Map<number, string[]>()
  let handles = 0
  const newHandle = (id: number): number => {
    handles++
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32BE(handles)
    sftp.handle(id, bytes)
    return handles
  }
  const fileOf = (handle: Buffer): FileHandle => {
    const file = files.get(handle.readUInt32BE())
    if (!file) throw new Error('no such handle')
    return file
  }
  const answer = (id: number, work: () => Promise<unknown>) => {
    work().catch((error: unknown) => {
      const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT'
      sftp.status(id, isMissing ? status.NO_SUCH_FILE : status.FAILURE)
    })
  }
  const done = (id: number, work: () => Promise<unknown>) =>
    answer(id, async () => {
      await work()
      sftp.status(id, status.OK)
    })
  const attributes = ({ mode, uid, gid, size, atimeMs, mtimeMs }: Awaited<ReturnType<typeof stat>>) => {
    const [atime, mtime] = [Math.floor(Number(atimeMs) / 1000), Math.floor(Number(mtimeMs) / 1000)]
    return { mode: Number(mode), uid: Number(uid), gid: Number(gid), size: Number(size), atime, mtime }
  }
  sftp.on('OPEN', (id, path, asked, { mode }) => {
    const access = (asked & flag.WRITE) === 0 ? constants.O_RDONLY : constants.O_RDWR
    const creation = (asked & flag.CREAT) === 0 ? 0 : constants.O_CREAT
    const exclusive = (asked & flag.EXCL) === 0 ? 0 : constants.O_EXCL
    answer(id, async () => {
      const file = await open(path, access | creation | exclusive, mode)
      files.set(newHandle(id), file)
    })
  })
  sftp.on('READ', (id, handle, offset, length) =>
    answer(id, async () => {
      const { bytesRead, buffer } = await fileOf(handle).read(Buffer.alloc(length), 0, length, offset)
      if (bytesRead === 0) sftp.status(id, status.EOF)
      else sftp.data(id, buffer.subarray(0, bytesRead))
    }),
  )
  sftp.on('WRITE', (id, handle, offset, data) => done(id, () => fileOf(handle).write(data, 0, data.length, offset)))
  sftp.on('FSTAT', (id, handle) => answer(id, async () => sftp.attrs(id, attributes(await fileOf(handle).stat()))))
  sftp.on('LSTAT', (id, path) => answer(id, async () => sftp.attrs(id, attributes(await lstat(path)))))
  sftp.on('STAT', (id, path) => answer(id, async () => sftp.attrs(id, attributes(await stat(path)))))
  sftp.on('CLOSE', (id, handle) =>
    done(id, async () => {
      await files.get(handle.readUInt32BE())?.close()
      files.delete(handle.readUInt32BE())
    }),
  )
  sftp.on('OPENDIR', (id, path) =>
    answer(id, async () => {
      const names = await readdir(path)
      folders.set(
        newHandle(id),
        names.map((name) => join(path, name)),
      )
    }),
  )
  sftp.on('READDIR', (id, handle) =>
    answer(id, async () => {
      const paths = folders.get(handle.readUInt32BE())?.splice(0) ?? []
      if (paths.length === 0) sftp.status(id, status.EOF)
      else {
        const entry = async (path: string) => {
          const filename = path.slice(path.lastIndexOf('/') + 1)
          return { filename, longname: filename, attrs: attributes(await lstat(path)) }
        }
        sftp.name(id, await Promise.all(paths.map(entry)))
      }
    }),
  )
  sftp.on('MKDIR', (id, path) => done(id, () => mkdir(path)))
  sftp.on('RMDIR', (id, path) => done(id, () => rmdir(path)))
  sftp.on('REMOVE', (id, path) => done(id, () => unlink(path)))
  sftp.on('RENAME', (id, from, to) =>
    done(id, async () => {
      if (await lstat(to).catch(() => undefined)) throw new Error('it exists')
      await rename(from, to)
    }),
  )
  sftp.on('SETSTAT', (id) => sftp.status(id, status[settingAttributes()]))
  sftp.on('FSETSTAT', (id) => sftp.status(id, status[settingAttributes()]))
}
