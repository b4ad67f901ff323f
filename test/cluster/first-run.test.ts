/** The first run of two nodes at once, with an empty database that they share. */
import { execFile, spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { lacks } from '../programs.js'
import { thisServer } from '../database/engines.js'
import { connectHttp } from '../stories/protocols.js'

const main = fileURLToPath(new URL('../../src/main.js', import.meta.url))

/** Starts a daemon with a data folder of its own. Resolves to what it has printed when it is ready. */
async function startNode(t: Test, folder: string, store: string): Promise<string> {
  const words = [main, '--data', folder, '--http', '127.0.0.1:0', '--sftp', '127.0.0.1:0']
  const { TIDEGATE_ADMIN_PASSWORD: _none, ...environment } = process.env
  const child = spawn(process.execPath, words, {
    env: { ...environment, TIDEGATE_STORE: store },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  return new Promise((resolve, reject) => {
    let text = ''
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
      if (/ready.*\n/.test(text)) resolve(text)
    })
    child.once('exit', (status) => reject(new Error(`the daemon ended with ${status}`)))
  })
}

void t.test(
  'both start, with one admin whose password is shown once',
  { skip: lacks('postgres', 'initdb') },
  async (t) => {
    const server = await thisServer()
    const store = await server.createDatabase()
    const folder = t.testdir()
    const printed = await Promise.all(['one', 'two'].map((name) => startNode(t, join(folder, name), store)))
    const passwords = printed.flatMap((text) =>
      [...text.matchAll(/password (\S+)/g)].map(([, password = '']) => password),
    )
    t.equal(passwords.length, 1)
    for (const text of printed) {
      const url = /http:\/\/\S+/.exec(text)?.[0] ?? ''
      const where = { url, davUrl: `${url}/dav/`, sftpPort: 0 }
      await connectHttp(where, { username: 'admin', password: passwords[0] ?? '' })
    }
    const { stdout } = await promisify(execFile)(process.execPath, [main, 'nodes', '--json'], {
      env: { ...process.env, TIDEGATE_DATA: join(folder, 'one'), TIDEGATE_STORE: store },
    })
    t.match(JSON.parse(stdout), [{ state: 'current', addresses: { http: /:\d+$/ } }, { state: 'current' }])
    t.same(await server.query('select role from users order by role', store), [{ role: 1 }, { role: 2 }])
    t.same(await server.query('select ended from nodes', store), [{ ended: null }, { ended: null }])
  },
)
