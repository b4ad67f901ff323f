/**
 * 200 WebDAV clients, each with a connection and a folder of its own, mix small requests for a while: every response is
 * what the client expects of its folder, and the daemon's memory does not grow with time.
 */
import { randomBytes, randomInt } from 'node:crypto'
import { Agent, request, type IncomingMessage } from 'node:http'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { startDaemon, type Daemon } from '../gateway.js'
import { resident } from '../resident-memory.js'

const mebibyte = 1024 * 1024
const clientCount = 200
const seconds = Number(process.env.TIDEGATE_LOAD_SECONDS ?? 10)
const maxFiles = 20
/** Largest file, in bytes. */
const maxSize = 8192
/** Maximum growth of memory from the second quarter of the time to the last, in MiB. */
const maxGrowth = 40

interface Answer {
  readonly status: number
  readonly body: Buffer
}

/** One client, and what it expects to find in its folder. */
class Client {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 })
  readonly #files = new Map<string, Buffer>()
  readonly #folder: string
  readonly #headers: Readonly<Record<string, string>>
  #names = 0
  /** Milliseconds of each request. */
  readonly durations: number[] = []

  constructor({ davUrl, adminPassword }: Daemon, number: number) {
    this.#folder = `${davUrl.replace(/\/$/, '')}/client-${number}`
    this.#headers = { Authorization: `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}` }
  }

  async start(): Promise<void> {
    await this.#expect('MKCOL', '', 201)
  }

  /** Makes one random request, and throws if the response is not what this client expects. */
  async step(): Promise<void> {
    const [name] = [...this.#files.keys()].slice(randomInt(Math.max(1, this.#files.size)))
    const content = name === undefined ? undefined : this.#files.get(name)
    const action = randomInt(100)
    if (name === undefined || content === undefined || (action < 20 && this.#files.size < maxFiles)) {
      await this.#put(`file-${this.#names++}.bin`, 201)
    } else if (action < 30) {
      await this.#put(name, 204)
    } else if (action < 65) {
      const { body } = await this.#expect('GET', name, 200)
      if (!body.equals(content)) throw new Error(`GET ${name} has other content`)
    } else if (action < 75) {
      await this.#expect('HEAD', name, 200)
    } else if (action < 85) {
      await this.#list()
    } else if (action < 92) {
      const target = `moved-${this.#names++}.bin`
      await this.#expect('MOVE', name, 201, { Destination: `${this.#folder}/${target}` })
      this.#files.delete(name)
      this.#files.set(target, content)
    } else {
      await this.#expect('DELETE', name, 204)
      this.#files.delete(name)
      await this.#expect('GET', name, 404)
    }
  }

  close(): void {
    this.#agent.destroy()
  }

  async #put(name: string, status: number): Promise<void> {
    const content = randomBytes(randomInt(maxSize))
    await this.#expect('PUT', name, status, {}, content)
    this.#files.set(name, content)
  }

  async #list(): Promise<void> {
    const { body } = await this.#expect('PROPFIND', '', 207, { Depth: '1' })
    const listed = [...body.toString().matchAll(/<D:href>[^<]*\/([^</]+)<\/D:href>/g)].map(([, name]) => name).sort()
    const expected = [...this.#files.keys()].sort()
    if (listed.join() !== expected.join()) throw new Error(`listed ${listed.join()}, expected ${expected.join()}`)
  }

  async #expect(
    method: string,
    name: string,
    status: number,
    headers: Readonly<Record<string, string>> = {},
    content?: Buffer,
  ): Promise<Answer> {
    const start = performance.now()
    const answer = await this.#send(method, `${this.#folder}/${name}`, headers, content)
    this.durations.push(performance.now() - start)
    if (answer.status !== status) throw new Error(`${method} ${name}: ${answer.status}, not ${status}`)
    return answer
  }

  async #send(
    method: string,
    url: string,
    headers: Readonly<Record<string, string>>,
    content: Buffer | undefined,
  ): Promise<Answer> {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const sent = request(url, { method, agent: this.#agent, headers: { ...this.#headers, ...headers } })
      sent.once('response', resolve).once('error', reject).end(content)
    })
    return { status: response.statusCode ?? 0, body: await buffer(response) }
  }
}

void t.test(
  `${clientCount} clients with small requests for ${seconds} s`,
  { timeout: (seconds + 120) * 1000, skip: process.platform !== 'linux' && 'reads /proc' },
  async (t) => {
    const daemon = await startDaemon(t)
    const clients = Array.from({ length: clientCount }, (_, number) => new Client(daemon, number))
    t.teardown(() => clients.forEach((client) => client.close()))
    await Promise.all(clients.map((client) => client.start()))

    const samples: number[] = []
    const timer = setInterval(() => void resident(daemon).then((bytes) => samples.push(bytes)), 200)
    const end = performance.now() + seconds * 1000
    const errors: unknown[] = []
    await Promise.all(
      clients.map(async (client) => {
        try {
          while (performance.now() < end) await client.step()
        } catch (error) {
          errors.push(error)
        }
      }),
    )
    clearInterval(timer)
    t.same(errors, [], 'every response is what the client expects')

    const durations = clients.flatMap((client) => client.durations).sort((one, other) => one - other)
    const percentile = (share: number) => (durations[Math.floor(durations.length * share)] ?? NaN).toFixed(1)
    t.comment(`${durations.length} requests, ${Math.round(durations.length / seconds)} in a second`)
    t.comment(`50 % within ${percentile(0.5)} ms, 99 % within ${percentile(0.99)} ms, all ${percentile(0.999999)} ms`)

    const quarter = Math.floor(samples.length / 4)
    const early = Math.max(...samples.slice(quarter, 2 * quarter)) / mebibyte
    const late = Math.max(...samples.slice(-quarter)) / mebibyte
    t.comment(`memory: at most ${early.toFixed(0)} MiB in the second quarter, ${late.toFixed(0)} MiB in the last`)
    t.ok(late - early < maxGrowth, 'memory does not grow')
  },
)
