/** HAProxy, which forwards TCP connections: with a header of the PROXY protocol, or to several servers in turn. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Test } from 'tap'
import { findProgram } from '../programs.js'
import { accepts, freePorts } from './free-port.js'

const defaults = 'defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n'

/** Forwards to a port of this machine, with a header of each version. Resolves to the port of each version. */
export async function startHaproxy(t: Test, target: number): Promise<{ readonly v1: number; readonly v2: number }> {
  const [v1 = 0, v2 = 0] = await freePorts(2)
  const listener = (name: string, port: number, option: string) =>
    `listen ${name}\n  bind 127.0.0.1:${port}\n  server gateway 127.0.0.1:${target} ${option}\n`
  await run(t, listener('v1', v1, 'send-proxy') + listener('v2', v2, 'send-proxy-v2'), v2)
  return { v1, v2 }
}

interface Ports {
  readonly http: number
  readonly sftp: number
}

/** Forwards each connection to another one of the gateways that are ready. Resolves to the ports for their clients. */
export async function startBalancer(t: Test, gateways: readonly Ports[]): Promise<Ports> {
  const [http = 0, sftp = 0] = await freePorts(2)
  const listener = (protocol: keyof Ports, port: number) => {
    const servers = gateways.map((ports, index) => {
      return `  server gateway-${index} 127.0.0.1:${ports[protocol]} check port ${ports.http} inter 500ms fall 2 rise 1\n`
    })
    const check = '  balance roundrobin\n  option httpchk GET /readyz\n  timeout check 1s\n'
    return `listen ${protocol}\n  bind 127.0.0.1:${port}\n${check}${servers.join('')}`
  }
  await run(t, listener('http', http) + listener('sftp', sftp), sftp)
  return { http, sftp }
}

/** Runs HAProxy with these listeners until the end of the test. Resolves when it accepts connections to `port`. */
async function run(t: Test, listeners: string, port: number): Promise<void> {
  const program = findProgram('haproxy')
  if (program === undefined) throw new Error('HAProxy is not installed')
  const file = join(t.testdir(), 'haproxy.cfg')
  await writeFile(file, defaults + listeners)
  const child = spawn(program, ['-db', '-q', '-f', file], { stdio: ['ignore', 'ignore', 'inherit'] })
  const ended = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  while (!(await accepts(port))) {
    if (child.exitCode !== null) throw new Error(`HAProxy ended with status ${child.exitCode}`)
    await wait(20)
  }
}
