/** Storages on real servers, one row for each configuration. Stories and litmus run over them. */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { emptyFolder } from '../drivers/ftp/mount.js'
import { rclone, startRclone, type Sections } from '../drivers/rclone/mount.js'
import { startBucket } from '../drivers/s3/mount.js'
import type { Addresses } from '../gateway.js'
import { lacks, onlyWithVariants } from '../programs.js'
import { apacheAccount, apachePrograms, startApacheDav } from './apache-dav.js'
import { startOpenSsh } from './openssh.js'
import { sambaPrograms, startSamba } from './samba.js'
import { swiftPrograms } from './swift.js'
import { startVsftpd } from './vsftpd.js'

/** A storage to create by the API. */
export interface StorageAsk {
  readonly mountPath: string
  readonly driver: string
  readonly addition: object
}

export interface RemoteServer {
  /**
   * Storages over a new, empty folder of the server. The one at `mountPath` shows the folder, and may be based on the
   * others.
   */
  storages(mountPath: string): Promise<readonly StorageAsk[]>
  stop(): Promise<void>
}

export interface Remote {
  readonly name: string
  /** Programs that must be installed. */
  readonly programs: readonly string[]
  /** Every call takes several processes some milliseconds, so tests use a smaller tree. */
  readonly isSlow?: boolean
  /** Repeats others over another backend: its tests run with TIDEGATE_VARIANTS=all. */
  readonly isVariant?: boolean
  /** Largest body of unknown length in MiB that the stories send, where they are to send large ones. Default: 256. */
  readonly largest?: number
  start(): Promise<RemoteServer>
}

async function startS3(): Promise<RemoteServer> {
  const bucket = await startBucket()
  return {
    storages: async (mountPath) => [{ mountPath, driver: 'S3', addition: bucket.options() }],
    stop: () => bucket.stop(),
  }
}

async function startSftp(): Promise<RemoteServer> {
  const server = await startOpenSsh()
  const files = await mkdtemp(join(tmpdir(), 'tidegate-remote-'))
  const { address, username, privateKey } = server
  return {
    storages: async (mountPath) => {
      const root_folder_path = await mkdtemp(join(files, 'storage-'))
      return [{ mountPath, driver: 'SFTP', addition: { address, username, private_key: privateKey, root_folder_path } }]
    },
    stop: async () => {
      await server.stop()
      await rm(files, { recursive: true, force: true })
    },
  }
}

async function startWebDav(): Promise<RemoteServer> {
  const server = await startApacheDav()
  return {
    storages: async (mountPath) => {
      const folder = await mkdtemp(join(server.files, 'storage-'))
      // Apache's child processes run as another user.
      await chmod(folder, 0o777)
      const address = `http://127.0.0.1:${server.port}/basic`
      return [
        {
          mountPath,
          driver: 'WebDav',
          addition: { ...apacheAccount, address, root_folder_path: `/${basename(folder)}` },
        },
      ]
    },
    stop: () => server.stop(),
  }
}

async function startSmb(): Promise<RemoteServer> {
  const server = await startSamba()
  const { address, username, password } = server
  return {
    storages: async (mountPath) => {
      const root_folder_path = basename(await mkdtemp(join(server.folder, 'storage-')))
      return [
        { mountPath, driver: 'SMB', addition: { address, username, password, share_name: 'files', root_folder_path } },
      ]
    },
    stop: () => server.stop(),
  }
}

async function startFtp(): Promise<RemoteServer> {
  const server = await startVsftpd()
  const { username, password, port } = server
  return {
    storages: async (mountPath) => {
      const { path: root_folder_path } = await emptyFolder(server)
      const address = `127.0.0.1:${port}`
      return [{ mountPath, driver: 'FTP', addition: { address, username, password, root_folder_path } }]
    },
    stop: () => server.stop(),
  }
}

/** Remotes of rclone: of S3, of files that it encrypts on this machine, and in the memory of its process. */
async function startRcloneS3(): Promise<RemoteServer> {
  const bucket = await startBucket()
  const { endpoint, region, accessKey, secretKey } = bucket.swift
  const keys = { access_key_id: accessKey, secret_access_key: secretKey }
  const section = {
    type: 's3',
    provider: 'Other',
    endpoint,
    region,
    force_path_style: 'true',
    list_version: '1',
    ...keys,
  }
  const server = await startRcloneRemote({ server: section }, `server:${bucket.name}`)
  return { ...server, stop: () => Promise.all([server.stop(), bucket.stop()]).then(() => undefined) }
}

async function startRcloneRemote(sections: Sections, base: string): Promise<RemoteServer> {
  const made = await startRclone(sections)
  return {
    storages: async (mountPath) => {
      const addition = { remote: await made.folder(base), config_path: made.config, program_path: rclone }
      return [{ mountPath, driver: 'Rclone', addition }]
    },
    stop: () => made.stop(),
  }
}

/** An encrypted storage over any of the others. */
function encrypted(remote: Remote): Remote {
  const addition = {
    filename_encryption: 'standard',
    directory_name_encryption: 'true',
    password: 'tide',
    salt: 'time',
  }
  return {
    ...remote,
    name: `Crypt over ${remote.name}`,
    isVariant: true,
    async start() {
      const server = await remote.start()
      return {
        storages: async (mountPath) => [
          ...(await server.storages(`${mountPath}-below`)),
          { mountPath, driver: 'Crypt', addition: { ...addition, remote_path: `${mountPath}-below` } },
        ],
        stop: () => server.stop(),
      }
    },
  }
}

const s3: Remote = { name: 'S3', programs: swiftPrograms, isSlow: true, start: startS3 }
const sftp: Remote = { name: 'SFTP', programs: ['sshd', 'ssh-keygen'], start: startSftp }

const webDav: Remote = { name: 'WebDav', programs: apachePrograms, start: startWebDav }
const smb: Remote = { name: 'SMB', programs: sambaPrograms, start: startSmb }
const ftp: Remote = { name: 'FTP', programs: ['vsftpd'], start: startFtp }

const rcloneS3: Remote = {
  name: 'Rclone over S3',
  programs: ['rclone', ...swiftPrograms],
  isSlow: true,
  isVariant: true,
  largest: 1024,
  start: startRcloneS3,
}
const rcloneCrypt: Remote = {
  name: 'Rclone over crypt',
  programs: ['rclone'],
  largest: 1024,
  start: () => startRcloneRemote({}, 'crypt:'),
}
const rcloneMemory: Remote = {
  name: 'Rclone over memory',
  programs: ['rclone'],
  isVariant: true,
  start: () => startRcloneRemote({}, 'memory:'),
}

export const remotes: readonly Remote[] = [
  ...[s3, sftp, webDav, smb, ftp, encrypted(s3)],
  ...[rcloneS3, rcloneCrypt, rcloneMemory],
]

/** The `skip` option of a test over a remote that needs other programs too. */
export function skipOver(remote: Remote, ...others: readonly string[]): string | false {
  return (remote.isVariant === true && onlyWithVariants) || lacks(...others, ...remote.programs)
}

export function remoteNamed(name: string): Remote {
  const remote = remotes.find((each) => each.name === name)
  if (remote === undefined) throw new Error(`no remote has the name ${name}`)
  return remote
}

/** Creates the storages by the API, as an admin. Rejects with the message of the response if one does not start. */
export async function mount(
  { url }: Pick<Addresses, 'url'>,
  adminPassword: string,
  storages: readonly StorageAsk[],
): Promise<void> {
  const call = async (path: string, body: object, token = ''): Promise<unknown> => {
    const headers = { 'Content-Type': 'application/json', Authorization: token }
    const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    const { code, message, data } = (await response.json()) as { code: number; message: string; data: unknown }
    if (code !== 200) throw new Error(`${path}: ${message}`)
    return data
  }
  const { token } = (await call('/api/auth/login', { username: 'admin', password: adminPassword })) as { token: string }
  for (const { mountPath, driver, addition } of storages) {
    // Downloads go through the gateway, because some WebDAV clients, such as litmus, do not follow redirects.
    const common = { webdav_policy: 'native_proxy', cache_expiration: 30 }
    const storage = { mount_path: mountPath, driver, addition: JSON.stringify(addition), ...common }
    await call('/api/admin/storage/create', storage, token)
  }
}
