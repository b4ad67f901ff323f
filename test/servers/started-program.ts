/** Starts an external server program for a test, and waits until it responds. */
import { spawn } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { findProgram } from '../programs.js'

interface StartedProgram {
  /** Resolves when it has ended. */
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>
}

interface SpawnedAs extends Partial<UserIds> {
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

interface UserIds {
  readonly uid: number
  readonly gid: number
}

/** Calls `answers` until it resolves to true. If it never does, rejects with the output of the program. */
async function startProgram(
  name: string,
  options: readonly string[],
  spawned: SpawnedAs,
  answers: () => Promise<boolean>,
): Promise<StartedProgram> {
  const program = findProgram(name)
  if (program === undefined) throw new Error(`${name} is not installed`)
  const child = spawn(program, options, { ...spawned, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  const hear = (chunk: Buffer) => (said = (said + chunk.toString()).slice(-5000))
  child.stdout.on('data', hear)
  child.stderr.on('data', hear)
  const isOver = () => child.exitCode !== null || child.signalCode !== null
  // Also of the processes that it has started: a server process of PostgreSQL may serve a connection for a moment
  // longer.
  const exit = new Promise<void>((resolve) => child.once('close', () => resolve()))
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

/** A program that stores its state in a folder, and can be killed and restarted with it. */
export interface LastingProgram {
  /** Sends SIGKILL. `restart` starts the program again in the same folder. */
  kill(): Promise<void>
  restart(): Promise<void>
  /** Kills the program and removes the folder. */
  stop(): Promise<void>
}

/** Like `startProgram`, with the folder as working directory and home. `user`: who runs it; by default this user. */
export async function startLasting(
  name: string,
  options: readonly string[],
  folder: string,
  answers: () => Promise<boolean>,
  user?: UserIds,
): Promise<LastingProgram> {
  const env = { HOME: folder, PATH: process.env.PATH ?? '', LANG: 'C.UTF-8' }
  const start = () => startProgram(name, options, { cwd: folder, env, ...user }, answers)
  let running = await start()
  return {
    kill: () => running.end('SIGKILL'),
    restart: async () => {
      running = await start()
    },
    stop: async () => {
      // On SIGTERM it would first notify trackers and wait for peers. Its state is no longer needed.
      await running.end('SIGKILL')
      await rm(folder, { recursive: true, force: true, maxRetries: 3 })
    },
  }
}
