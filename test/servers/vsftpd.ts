/** vsftpd on a free port. It supports LIST only, and signs in as `anonymous` with a password. */
import { chmod, chown, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findProgram } from '../programs.js'
import { makeCertificate } from './certificates.js'
import { freePort } from './free-port.js'
import { accountIds, startFtpProcess, type FtpServer } from './ftp-process.js'

type VsftpdTls = 'none' | 'explicit' | 'implicit'

export async function startVsftpd(tls: VsftpdTls = 'none'): Promise<FtpServer> {
  const program = findProgram('vsftpd')
  if (program === undefined) throw new Error('vsftpd is not installed')
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-vsftpd-'))
  await chmod(folder, 0o755)
  // vsftpd requires that the root folder of the anonymous user is not writable.
  const [root, empty] = [join(folder, 'root'), join(folder, 'empty')]
  const files = join(root, 'files')
  await mkdir(files, { recursive: true })
  await mkdir(empty)
  const { uid, gid } = await accountIds('ftp')
  await chown(files, uid, gid)
  const { certificate, key } = await makeCertificate(folder)
  const password = 'tide-and-time'
  await writeFile(join(folder, 'passwords'), `${password}\n`)
  const port = await freePort()
  const config = [
    ...['listen=YES', 'listen_address=127.0.0.1', `listen_port=${port}`, 'background=NO', 'seccomp_sandbox=NO'],
    ...['anonymous_enable=YES', 'local_enable=NO', 'ftp_username=ftp', `anon_root=${root}`, 'anon_umask=022'],
    ...['secure_email_list_enable=YES', `email_password_file=${join(folder, 'passwords')}`, 'xferlog_enable=NO'],
    ...['write_enable=YES', 'anon_upload_enable=YES', 'anon_mkdir_write_enable=YES', 'anon_other_write_enable=YES'],
    ...['anon_world_readable_only=NO', `secure_chroot_dir=${empty}`, 'max_per_ip=0', 'max_clients=0'],
    ...(tls === 'none'
      ? []
      : [
          ...['ssl_enable=YES', 'allow_anon_ssl=YES', 'force_anon_data_ssl=YES', 'force_anon_logins_ssl=YES'],
          ...[`rsa_cert_file=${certificate}`, `rsa_private_key_file=${key}`, 'require_ssl_reuse=YES'],
          ...(tls === 'implicit' ? ['implicit_ssl=YES'] : []),
        ]),
  ]
  const file = join(folder, 'vsftpd.conf')
  await writeFile(file, `${config.join('\n')}\n`, { mode: 0o600 })
  const stop = await startFtpProcess(program, [file], { port, speaksFirst: tls !== 'implicit' })
  return {
    port,
    username: 'anonymous',
    password,
    certificate: await readFile(certificate, 'utf8'),
    files,
    path: '/files',
    owner: uid,
    stop: async () => {
      await stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
