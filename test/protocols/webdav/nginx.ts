/** A real nginx in front of a gateway, with its own configuration, certificate and port. */
import { execFileSync, spawn } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Test } from 'tap'
import { findProgram } from '../../programs.js'
import { freePort } from '../../servers/free-port.js'

interface ProxySite {
  /** Requests below this path are forwarded to the backend, with the path unchanged. */
  readonly path: string
  /** `http://127.0.0.1:PORT` */
  readonly backend: string
  /** Headers that it sets, such as `Host`, with values in the syntax of nginx. */
  readonly headers: Readonly<Record<string, string>>
}

export interface Proxy {
  /** `https://127.0.0.1:PORT` */
  readonly url: string
  readonly port: number
  /** Forwards to this site from now on. */
  serve(site: ProxySite): Promise<void>
}

/** Stops at the end of the test. */
export async function startNginx(t: Test): Promise<Proxy> {
  const program = findProgram('nginx')
  if (program === undefined) throw new Error('nginx is not installed')
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-nginx-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
  makeCertificate(folder)
  for (const name of ['body', 'proxy', 'other']) await mkdir(join(folder, name))
  const port = await freePort()
  const file = join(folder, 'nginx.conf')
  let running: ReturnType<typeof spawn> | undefined
  const stop = async (): Promise<void> => {
    const child = running
    running = undefined
    if (child?.exitCode !== null) return
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGTERM')
    await ended
  }
  t.teardown(stop)
  return {
    url: `https://127.0.0.1:${port}`,
    port,
    serve: async (site) => {
      await stop()
      await writeFile(file, configuration(folder, port, site))
      const child = spawn(program, ['-p', folder, '-c', file, '-e', join(folder, 'error.log')], { stdio: 'ignore' })
      running = child
      await accepts(port, () => child.exitCode !== null)
    },
  }
}

function makeCertificate(folder: string): void {
  const subject = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1']
  const files = ['-keyout', join(folder, 'key.pem'), '-out', join(folder, 'certificate.pem')]
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  execFileSync('openssl', ['req', '-x509', '-days', '2', ...key, ...subject, ...files], { stdio: 'ignore' })
}

function configuration(folder: string, port: number, { path, backend, headers }: ProxySite): string {
  const set = Object.entries(headers).map(([name, value]) => `      proxy_set_header ${name} ${value};`)
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  return `${user}
daemon off;
worker_processes 1;
pid ${folder}/pid;
events {}
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/other;
  uwsgi_temp_path ${folder}/other;
  scgi_temp_path ${folder}/other;
  server {
    listen 127.0.0.1:${port} ssl;
    ssl_certificate ${folder}/certificate.pem;
    ssl_certificate_key ${folder}/key.pem;
    client_max_body_size 0;
    location ${path} {
      proxy_pass ${backend};
      proxy_http_version 1.1;
      proxy_request_buffering off;
      proxy_buffering off;
${set.join('\n')}
    }
  }
}
`
}

async function accepts(port: number, ended: () => boolean): Promise<void> {
  for (let tries = 0; tries < 100 && !ended(); tries++) {
    const open = await new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false))
      socket.on('connect', () => socket.destroy())
    })
    if (open) return
    await wait(50)
  }
  throw new Error('nginx does not accept connections')
}
