/** HAProxy, which forwards TCP connections with a header of the PROXY protocol. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Test } from 'tap'
import { findProgram } from '../programs.js'
import { freePorts } from './free-port.js'

/** Forwards to a port of this machine, with a header of each version. Resolves to the port of each version. */
export async function startHaproxy(t: Test, target: number): Promise<{ readonly v1: number; readonly v2: number }> {
  const program = findProgram('haproxy')
  if (program === undefined) throw new Error('HAProxy is not installed')
  const [v1 = 0, v2 = 0] = await freePorts(2)
  const listener = (name: string, port: number, option: string) =>
    `listen ${name}\n  bind 127.0.0.1:${port}\n  server gateway 127.0.0.1:${target} ${option}\n`
  const file = join(t.testdir(), 'haproxy.cfg')
  const defaults = 'defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n'
  await writeFile(file, defaults + listener('v1', v1, 'send-proxy') + listener('v2', v2, 'send-proxy-v2'))
  const child = spawn(program, ['-db', '-q', '-f', file], { stdio: ['ignore', 'ignore', 'inherit'] })
  const ended = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  while (!(await accepts(v2))) {
    if (child.exitCode !== null) throw new Error(`HAProxy ended with status ${child.exitCode}`)
    await wait(20)
  }
  return { v1, v2 }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true))
    socket.on('connect', () => socket.destroy()).on('error', () => resolve(false))
  })
}
