/** Runs `tidegate import`, and asks a gateway what the imported users see. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import type { RunningGateway } from '../gateway.js'

const main = fileURLToPath(new URL('../../src/main.js', import.meta.url))

export async function run(...words: readonly string[]) {
  const child = spawn(process.execPath, [main, 'import', ...words], { env: { ...process.env, TIDEGATE_STORE: '' } })
  let [out, err] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text))
  const [status] = (await once(child, 'close')) as [number | null]
  return { status, out, err }
}

export async function folder(t: Test): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'tidegate-import-'))
  t.teardown(() => rm(made, { recursive: true, force: true, maxRetries: 3 }))
  return made
}

export interface Sent {
  readonly username: string
  readonly password: string
  readonly otp_code?: string
}

async function call(url: string, path: string, body: object, token = ''): Promise<{ code: number; data: unknown }> {
  const headers = { 'Content-Type': 'application/json', Authorization: token }
  const response = await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  return (await response.json()) as { code: number; data: unknown }
}

/** The token, or the code of the refusal. */
export async function signIn({ url }: RunningGateway, sent: Sent, path = '/api/auth/login'): Promise<string | number> {
  const { code, data } = await call(url, path, sent)
  return code === 200 ? (data as { token: string }).token : code
}

/** The names in a folder, or the code of the refusal. */
export async function names(
  { url }: RunningGateway,
  token: string | number,
  path: string,
): Promise<readonly string[] | number> {
  const { code, data } = await call(url, '/api/fs/list', { path }, String(token))
  if (code !== 200) return code
  return ((data as { content: readonly { name: string }[] | null }).content ?? []).map(({ name }) => name).sort()
}
