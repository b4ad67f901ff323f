/** Storages that are deleted while files are written to them: nothing staged remains on the backend. */
import { mkdtemp, readdir, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { localType } from '../../drivers/local/index.js'
import { sftpFields, sftpType } from '../../drivers/sftp/index.js'
import type { Source } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { asPath } from '../../src/base/path.js'
import { checkOptions } from '../../src/mounts/fields.js'
import { apacheAccount, apachePrograms, startApacheDav } from '../servers/apache-dav.js'
import { webdavFields, webdavType } from '../../drivers/webdav/index.js'
import { emptyFolder, ftpSkip, openFtpMount } from '../drivers/ftp/mount.js'
import { openLocal } from '../drivers/env.js'
import { openShare } from '../drivers/smb/mount.js'
import { lacks } from '../programs.js'
import { startOpenSsh } from '../servers/openssh.js'
import { startPureFtpd } from '../servers/pure-ftpd.js'
import { sambaPrograms, startSamba } from '../servers/samba.js'
import { newTree } from '../tree/tree-fixture.js'

const mebibyte = 1024 * 1024

interface Backend {
  /** The folder of the storage on this machine. */
  readonly folder: string
  readonly open: (env: DriverEnv) => Promise<Driver>
}

async function newFolder(t: Test): Promise<string> {
  const made = await mkdtemp(join(await realpath(tmpdir()), 'tidegate-deleted-'))
  t.teardown(() => rm(made, { recursive: true, force: true }))
  return made
}

const backends: Readonly<
  Record<string, { readonly skip: string | false; readonly start: (t: Test) => Promise<Backend> }>
> = {
  Local: {
    skip: false,
    start: async (t) => {
      const folder = await newFolder(t)
      return { folder, open: (env) => openLocal(folder, {}, env) }
    },
  },
  SFTP: {
    skip: lacks('sshd', 'ssh-keygen'),
    start: async (t) => {
      const server = await startOpenSsh()
      t.teardown(() => server.stop())
      const folder = await newFolder(t)
      const { address, username, privateKey: private_key } = server
      const options = checkOptions(sftpFields, { address, username, private_key, root_folder_path: folder })
      return { folder, open: (env) => sftpType.open(options, env) }
    },
  },
  FTP: {
    skip: ftpSkip,
    start: async (t) => {
      const server = await startPureFtpd()
      t.teardown(() => server.stop())
      const { files, path } = await emptyFolder(server)
      return { folder: files, open: (env) => openFtpMount(server, path, {}, env) }
    },
  },
  SMB: {
    skip: lacks(...sambaPrograms),
    start: async (t) => {
      const server = await startSamba()
      t.teardown(() => server.stop())
      return { folder: server.folder, open: (env) => openShare(server, {}, env) }
    },
  },
  WebDav: {
    skip: lacks(...apachePrograms),
    start: async (t) => {
      const server = await startApacheDav()
      t.teardown(() => server.stop())
      const address = `http://127.0.0.1:${server.port}/basic`
      const options = checkOptions(webdavFields, { ...apacheAccount, address, root_folder_path: '/' })
      return { folder: server.files, open: (env) => webdavType.open(options, env) }
    },
  },
}

/** A body that ends only when it is destroyed. */
function stuck(size?: number): Source {
  const stream = new Readable({ read: () => undefined })
  stream.push(Buffer.alloc(2 * mebibyte))
  return { size, rereadable: size !== undefined, read: async () => stream }
}

/** Waits until a file is there. */
async function untilStaged(folder: string): Promise<void> {
  const files = async () =>
    (await readdir(folder, { recursive: true, withFileTypes: true })).filter((at) => at.isFile())
  while ((await files()).length === 0) await pause(10)
}

for (const [name, { skip, start }] of Object.entries(backends)) {
  void t.test(`a deleted storage leaves nothing staged: ${name}`, { skip }, async (t) => {
    for (const kind of ['write', 'resumable write', 'handle'] as const) {
      const { folder, open } = await start(t)
      const before = await readdir(folder)
      const traits = name === 'Local' ? localType.traits : name === 'SFTP' ? sftpType.traits : {}
      const tree = await newTree(t, { '/': { driverOf: open, traits: traits ?? {} } })
      const [row] = tree.mounts.rows()
      const { storage } = tree.mounts.find(asPath('/file'))
      const source = stuck(kind === 'resumable write' ? 20 * mebibyte : undefined)
      const resumable = kind === 'resumable write' ? tree.uploads.forSession(asPath('/file')) : undefined
      const writing =
        kind === 'handle'
          ? storage.open(asPath('/file'), 'replace').then((file) => file.write([Buffer.alloc(1000)], 0))
          : storage.write(asPath('/file'), source, { resumable })
      const written = writing.catch(() => undefined)
      // These two stage nothing before a handle is committed.
      const isStaged = kind !== 'handle' || (name !== 'FTP' && name !== 'WebDav')
      if (isStaged) await untilStaged(folder)
      // As `StorageAdmin.delete` does.
      const tokens = await tree.store.storages.deleteWithUploads(row?.id ?? 0)
      t.equal(await tree.supervisor.delete(row?.id ?? 0, tokens ?? []), undefined, 'the storage closes well')
      if (kind !== 'handle') await written
      t.same(await readdir(folder), before, kind)
      t.same(await tree.store.uploads.orphaned(), [])
    }
  })
}
