/** A server program of somebody else, started for a test and waited for until it answers. */
import { spawn } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { findProgram } from '../programs.js'

interface StartedProgram {
  /** Resolves once it has ended. */
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>
}

/** `answers` is asked until it resolves to true; rejects with what the program said where that never happens. */
async function startProgram(
  name: string,
  options: readonly string[],
  { cwd, env }: { readonly cwd: string; readonly env: Readonly<Record<string, string>> },
  answers: () => Promise<boolean>,
): Promise<StartedProgram> {
  const program = findProgram(name)
  if (program === undefined) throw new Error(`${name} is not installed`)
  const child = spawn(program, options, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  const hear = (chunk: Buffer) => (said = (said + chunk.toString()).slice(-5000))
  child.stdout.on('data', hear)
  child.stderr.on('data', hear)
  const isOver = () => child.exitCode !== null || child.signalCode !== null
  const exit = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const end = async (signal: 'SIGTERM' | 'SIGKILL') => {
    if (!isOver()) child.kill(signal)
    const late = setTimeout(() => child.kill('SIGKILL'), 10_000)
    await exit
    clearTimeout(late)
  }
  for (let tries = 0; !(await answers().catch(() => false)); tries++) {
    if (isOver() || tries > 200) {
      await end('SIGKILL')
      throw new Error(`${name} does not answer: ${said}`)
    }
    await delay(50)
  }
  return { end }
}

/** One that keeps what it knows in a folder, and can be killed and started again there. */
export interface LastingProgram {
  /** SIGKILL; the same place, after it, is served by `restart`. */
  kill(): Promise<void>
  restart(): Promise<void>
  /** The folder goes too. */
  stop(): Promise<void>
}

/** As `startProgram`, in a folder that is its home. */
export async function startLasting(
  name: string,
  options: readonly string[],
  folder: string,
  answers: () => Promise<boolean>,
): Promise<LastingProgram> {
  const env = { HOME: folder, PATH: process.env.PATH ?? '', LANG: 'C.UTF-8' }
  const start = () => startProgram(name, options, { cwd: folder, env }, answers)
  let running = await start()
  return {
    kill: () => running.end('SIGKILL'),
    restart: async () => {
      running = await start()
    },
    stop: async () => {
      // Asked to, it would first tell trackers and wait for peers; nobody needs what it knows any more.
      await running.end('SIGKILL')
      await rm(folder, { recursive: true, force: true, maxRetries: 3 })
    },
  }
}
