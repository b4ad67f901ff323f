/** The common part of the FTP servers of the tests: a process that listens on a port of loopback, and an account. */
import { execFile, spawn } from 'node:child_process'
import { connect } from 'node:net'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface FtpServer {
  readonly port: number
  readonly username: string
  readonly password: string
  /** In PEM form; self-signed. */
  readonly certificate: string
  /** A folder of this machine that the account may write to, and the server's path of it. */
  readonly files: string
  readonly path: string
  /** The user who owns written files. */
  readonly owner: number
  stop(): Promise<void>
}

/** Ports for data connections, from the first to the last. */
export interface PassivePorts {
  readonly first: number
  readonly last: number
}

export async function accountIds(name: string): Promise<{ readonly uid: number; readonly gid: number }> {
  const [uid, gid] = await Promise.all(['-u', '-g'].map((which) => run('id', [which, name])))
  return { uid: Number(uid?.stdout), gid: Number(gid?.stdout) }
}

/** Resolves, when it accepts connections (with `speaksFirst`: and has sent a greeting), to a function that stops it. */
export async function startFtpProcess(
  program: string,
  args: readonly string[],
  { port, speaksFirst }: { readonly port: number; readonly speaksFirst: boolean },
): Promise<() => Promise<void>> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(-5000)))
  }
  const exit = new Promise((resolve) => child.once('exit', resolve))
  for (let tries = 0; !(await answers(port, speaksFirst)); tries++) {
    if (child.exitCode !== null || tries > 200) throw new Error(`${program} does not answer: ${said}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return async () => {
    child.kill('SIGTERM')
    await exit
  }
}

function answers(port: number, speaksFirst: boolean): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    const end = (does: boolean) => {
      socket.destroy()
      resolve(does)
    }
    socket.once(speaksFirst ? 'data' : 'connect', () => end(true))
    socket.once('error', () => end(false))
    socket.once('close', () => end(false))
  })
}
