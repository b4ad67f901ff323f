#!/usr/bin/env node
/** The entry point of the process: runs the command that the arguments name. */
import './process/garbage-collection.js' // must be the first import that loads code
import { printable } from './cli/output.js'
import { createProgram } from './cli/program.js'
import { GatewayError } from './base/errors.js'

try {
  await createProgram().parseAsync()
} catch (error) {
  const reason = error instanceof GatewayError ? error.reason : error instanceof Error ? error.message : String(error)
  console.error(`tidegate: ${printable(reason)}`)
  process.exit(error instanceof GatewayError && error.code === 'invalid' ? 2 : 1)
}
