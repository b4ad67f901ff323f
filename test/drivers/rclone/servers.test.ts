/** The Rclone driver passes the conformance suite on remotes on real servers. */
import { chmod, chown } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { rcloneType } from '../../../drivers/rclone/index.js'
import { conformance } from '../../driver-conformance/driver.js'
import { at, put, textAt, type Candidate } from '../../driver-conformance/subject.js'
import { lacks, onlyWithVariants } from '../../programs.js'
import { apacheAccount, apachePrograms, startApacheDav } from '../../servers/apache-dav.js'
import { startOpenSsh } from '../../servers/openssh.js'
import { startPureFtpd } from '../../servers/pure-ftpd.js'
import { sambaPrograms, startSamba } from '../../servers/samba.js'
import { swiftPrograms } from '../../servers/swift.js'
import { ftpSkip, started } from '../ftp/mount.js'
import { obscured, startRclone, type Sections } from './mount.js'
import { startBucket } from '../s3/mount.js'

/** Runs the suite on new folders of a remote `server`, which is named by the remote. */
async function passes(
  t: Test,
  sections: Sections,
  base: string,
  more: Partial<Candidate> = {},
  flags = '',
): Promise<void> {
  const mount = await startRclone(sections)
  t.teardown(() => mount.stop())
  // While it is open, the storages share one process.
  const first = await mount.open('local:/usr', { flags })
  await conformance(t, {
    type: rcloneType,
    open: async () => {
      const folder = await mount.folder(base)
      return {
        driver: await mount.open(folder, { flags }),
        again: () => mount.open(folder, { flags }),
        dispose: async () => undefined,
      }
    },
    ...more,
  })
  await first.close?.()
}

await t.test('Rclone on S3', { skip: onlyWithVariants || lacks('rclone', ...swiftPrograms) }, async (t) => {
  const bucket = await startBucket(100)
  t.teardown(() => bucket.stop())
  const { endpoint, region, accessKey, secretKey } = bucket.swift
  const s3 = {
    ...{ type: 's3', provider: 'Other', endpoint, region, force_path_style: 'true', list_version: '1' },
    ...{ access_key_id: accessKey, secret_access_key: secretKey },
  }
  const sections = {
    s3,
    encrypted: { type: 'crypt', remote: `s3:${bucket.name}/crypt`, password: await obscured('x') },
  }
  for (const [name, base, flags] of [
    ['S3', `s3:${bucket.name}`, ''],
    ['S3 with the times of clients', `s3:${bucket.name}`, '--use-server-modtime=false'],
    ['crypt over S3', 'encrypted:', ''],
  ] as const) {
    await t.test(`Rclone passes the conformance suite on ${name}`, (t) =>
      passes(t, sections, base, { many: 100 }, flags),
    )
  }
})

await t.test(
  'Rclone passes the conformance suite on SFTP',
  { skip: onlyWithVariants || lacks('rclone', 'sshd', 'ssh-keygen') },
  async (t) => {
    const server = await startOpenSsh()
    t.teardown(() => server.stop())
    const [host = '', port = ''] = server.address.split(':')
    const key_pem = server.privateKey.trim().replaceAll('\n', '\\n')
    const sftp = { type: 'sftp', host, port, user: server.username, key_pem, shell_type: 'none' }
    const scratch = await startRclone()
    t.teardown(() => scratch.stop())
    await passes(t, { sftp }, `sftp:${scratch.files}`, { many: 100 })
  },
)

await t.test(
  'Rclone passes the conformance suite on WebDAV',
  { skip: onlyWithVariants || lacks('rclone', ...apachePrograms) },
  async (t) => {
    const server = await startApacheDav()
    t.teardown(() => server.stop())
    // Apache's child processes run as another user.
    await chmod(server.files, 0o777)
    const url = `http://127.0.0.1:${server.port}/basic`
    const pass = await obscured(apacheAccount.password)
    await passes(t, { dav: { type: 'webdav', url, vendor: 'other', user: apacheAccount.username, pass } }, 'dav:', {
      many: 100,
    })
  },
)

await t.test(
  'Rclone passes the conformance suite on FTP',
  { skip: onlyWithVariants || ftpSkip || lacks('rclone') },
  async (t) => {
    const server = await started(t, () => startPureFtpd())
    const pass = await obscured(server.password)
    await chown(server.files, server.owner, server.owner)
    const ftp = {
      type: 'ftp',
      host: '127.0.0.1',
      port: `${server.port}`,
      user: server.username,
      pass,
      idle_timeout: '2s',
    }
    await passes(t, { ftp }, `ftp:${server.path}`, { many: 100 })
  },
)

await t.test(
  'Rclone passes the conformance suite on SMB',
  { skip: onlyWithVariants || lacks('rclone', ...sambaPrograms) },
  async (t) => {
    const server = await startSamba()
    t.teardown(() => server.stop())
    const pass = await obscured(server.password)
    const smb = { type: 'smb', host: '127.0.0.1', port: `${server.port}`, user: server.username, pass }
    // Samba gives files with names of devices other names.
    await passes(t, { smb }, 'smb:files', { many: 100, cannotKeep: (name) => /^(?:NUL|con)$/.test(name) })
  },
)

await t.test(
  'Rclone refuses a file beside the shares of SMB, and moves none there',
  { skip: lacks('rclone', ...sambaPrograms) },
  async (t) => {
    const server = await startSamba()
    t.teardown(() => server.stop())
    const pass = await obscured(server.password)
    const mount = await startRclone({
      smb: { type: 'smb', host: '127.0.0.1', port: `${server.port}`, user: server.username, pass },
    })
    t.teardown(() => mount.stop())
    const driver = await mount.open('smb:')
    await put(driver, '/files/file', 'content')
    const refusal = { code: 'denied', reason: /each folder is a bucket: make a folder first/ }
    await t.rejects(put(driver, '/file', 'x'), refusal)
    await t.rejects(async () => driver.move?.(at('/files/file'), at('/file')), refusal)
    t.equal(await textAt(driver, '/files/file'), 'content')
    await driver.close?.()
  },
)
