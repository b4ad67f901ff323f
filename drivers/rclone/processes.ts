/** The processes of rclone of this gateway: one for each command, shared by its storages. */
import type { DriverEnv } from '../../src/contract/driver-env.js'
import type { RcloneCommand } from './options.js'
import { RcloneProcess } from './process.js'

interface Shared {
  readonly process: RcloneProcess
  users: number
}

const processes = new Map<string, Shared>()

export interface Lease {
  readonly process: RcloneProcess
  /** Ends the process if no other storage uses it. Resolves when it has ended. Later calls do nothing. */
  release(): Promise<void>
}

export function leaseProcess(command: RcloneCommand, env: DriverEnv): Lease {
  const key = JSON.stringify(command)
  const shared = processes.get(key) ?? { process: new RcloneProcess(command, env), users: 0 }
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
      await shared.process.close()
    },
  }
}
