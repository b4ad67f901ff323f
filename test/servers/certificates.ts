/** A self-signed certificate for a server on loopback. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface CertificateFiles {
  /** PEM files. */
  readonly certificate: string
  readonly key: string
}

/** Valid for `localhost` and 127.0.0.1, or for these host names, for one day. Writes two files to the folder. */
export async function makeCertificate(folder: string, names?: readonly string[]): Promise<CertificateFiles> {
  const subjects = names?.map((name) => `DNS:${name}`) ?? ['DNS:localhost', 'IP:127.0.0.1']
  const [certificate, key] = [join(folder, 'certificate.pem'), join(folder, 'key.pem')]
  await run('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1'],
    ...['-subj', '/CN=localhost', '-addext', `subjectAltName=${subjects.join(',')}`],
    ...['-keyout', key, '-out', certificate],
  ])
  return { certificate, key }
}
