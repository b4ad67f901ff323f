/**
 * The processes of rclone of this gateway: one for each command, shared by its storages. A new one starts when those that
 * end with the same configuration file have ended: rclone writes renewed tokens to it.
 */
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { RcloneCommand } from './options.js'
import { RcloneProcess } from './process.js'

interface Shared {
  readonly process: RcloneProcess
  users: number
}

const processes = new Map<string, Shared>()
/** The ends of processes, by configuration file. */
const ending = new Map<string, Promise<unknown>>()

export interface Lease {
  readonly process: RcloneProcess
  /** Ends the process if no other storage uses it. Resolves when it has ended. Later calls do nothing. */
  release(): Promise<void>
}

export function leaseProcess(command: RcloneCommand, env: DriverEnv): Lease {
  const key = JSON.stringify(command)
  const start = () => new RcloneProcess(command, env, ending.get(command.config))
  const shared = processes.get(key) ?? { process: start(), users: 0 }
  processes.set(key, shared)
  shared.users++
  let isReleased = false
  return {
    process: shared.process,
    release: async () => {
      if (isReleased) return
      isReleased = true
      if (--shared.users > 0) return
      processes.delete(key)
      const ended = shared.process.close()
      follow(command.config, ended)
      await ended
    },
  }
}

function follow(config: string, ended: Promise<void>): void {
  const all = Promise.allSettled([ending.get(config), ended]).finally(() => {
    if (ending.get(config) === all) ending.delete(config)
  })
  ending.set(config, all)
}
