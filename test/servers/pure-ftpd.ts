/** Pure-FTPd on a free port, with one virtual user. It supports MLSD and explicit TLS. */
import { execFile } from 'node:child_process'
import { chmod, chown, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findProgram } from '../programs.js'
import { makeCertificate } from './certificates.js'
import { freePort } from './free-port.js'
import { accountIds, startFtpProcess, type FtpServer, type PassivePorts } from './ftp-process.js'

const run = promisify(execFile)

export interface PureFtpdOptions {
  /** Maximum number of connections of one address. */
  readonly connections?: number
  /** Rejects sign-ins without TLS. */
  readonly tlsOnly?: boolean
  readonly passivePorts?: PassivePorts
}

export async function startPureFtpd({
  connections = 50,
  tlsOnly = false,
  passivePorts,
}: PureFtpdOptions = {}): Promise<FtpServer> {
  const [program, passwords] = [findProgram('pure-ftpd'), findProgram('pure-pw')]
  if (program === undefined || passwords === undefined) throw new Error('pure-ftpd is not there')
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-pureftpd-'))
  await chmod(folder, 0o755)
  const files = join(folder, 'files')
  await mkdir(files)
  const { uid, gid } = await accountIds('nobody')
  await chown(files, uid, gid)
  const { certificate, key } = await makeCertificate(folder)
  const both = join(folder, 'both.pem')
  await writeFile(both, (await readFile(key, 'utf8')) + (await readFile(certificate, 'utf8')), { mode: 0o600 })
  const [username, password] = ['tide', 'tide-and-time']
  const [list, database] = [join(folder, 'passwords'), join(folder, 'passwords.pdb')]
  // The hashes of its own tool take seconds at each sign-in.
  const { stdout: hash } = await run('openssl', ['passwd', '-1', password])
  await writeFile(list, `${username}:${hash.trim()}:${uid}:${gid}::${files}/./::::::::::::\n`, { mode: 0o600 })
  await run(passwords, ['mkdb', database, '-f', list])
  const port = await freePort()
  const stop = await startFtpProcess(
    program,
    [
      ...['-S', `127.0.0.1,${port}`, '-l', `puredb:${database}`, '-A', '-E', '-H', '-D', '-z', '-u', '1'],
      ...['-c', '100', '-C', `${connections}`, '-L', '200000:50', '-g', join(folder, 'pid')],
      ...(passivePorts ? ['-p', `${passivePorts.first}:${passivePorts.last}`] : []),
      ...['-Y', tlsOnly ? '2' : '1', '-2', both],
    ],
    { port, speaksFirst: true },
  )
  return {
    port,
    username,
    password,
    certificate: await readFile(certificate, 'utf8'),
    files,
    path: '/',
    owner: uid,
    stop: async () => {
      await stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
