/** Other programs that packaging runs. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const runFile = promisify(execFile)

interface RunOptions {
  readonly folder?: string
  /** Variables in addition to those of this process. */
  readonly environment?: Readonly<Record<string, string>>
}

/** Resolves to what the program writes to stdout. Rejects with its output if its status is not 0. */
export async function run(
  program: string,
  parameters: readonly string[],
  { folder, environment = {} }: RunOptions = {},
): Promise<string> {
  try {
    const { stdout } = await runFile(program, parameters, {
      ...(folder !== undefined && { cwd: folder }),
      env: { ...process.env, ...environment },
      maxBuffer: 64 * 1024 ** 2,
    })
    return stdout
  } catch (error) {
    const {
      stdout = '',
      stderr = '',
      message,
    } = error as Error & { readonly stdout?: string; readonly stderr?: string }
    const output = `${stdout}${stderr}`.slice(-4000)
    throw new Error(`${program} ${parameters.join(' ')} failed: ${message.split('\n', 1).join('')}\n${output}`, {
      cause: error,
    })
  }
}
