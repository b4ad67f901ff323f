/** The commands that act on a data folder, with or without a running daemon. */
import type { Command } from 'commander'
import { addAdminCommands } from './admin.js'
import { addCheckCommand } from './check.js'
import { addKeyCommands } from './keys.js'
import { addStorageCommands } from './storages.js'
import { addUserCommands } from './users.js'

export function addDataCommands(program: Command): void {
  addUserCommands(program)
  addKeyCommands(program)
  addStorageCommands(program)
  addAdminCommands(program)
  addCheckCommand(program)
}
