/** Requests that are compared by turns in one daemon, so that both meet the same state of it. */
import { HttpClient } from './http-client.js'
import { password, type Tidegate } from './peers/tidegate.js'
import { median, sampled } from './samples.js'

/** The API as an admin who has just signed in, which changes of users need. */
export async function freshAdmin(peer: Tidegate) {
  const { token } = (await peer.call('/api/auth/login', { username: 'admin', password })) as { token: string }
  return async (path: string, body?: unknown): Promise<unknown> => {
    const headers = { 'Content-Type': 'application/json', Authorization: token }
    const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
    const response = await fetch(peer.url + path, { ...init, headers })
    const { code, message, data } = (await response.json()) as { code: number; message: string; data: unknown }
    if (code !== 200) throw new Error(`${path}: ${code} ${message}`)
    return data
  }
}

export type Request = (client: HttpClient, round: number) => Promise<{ readonly total: number }>

export interface Taken {
  /** Median of each request. */
  readonly milliseconds: number
  /** Seconds that the server used for all of them. */
  readonly processor: number
}

interface Turns {
  readonly rounds: number
  /** How many times each request is sent in a round. */
  readonly times: number
  /** Prepares the turn of the request at this place. */
  readonly before?: (at: number) => Promise<unknown>
  /** Waits for what the daemon does after the answers of a turn, which is measured too. */
  readonly after?: () => Promise<unknown>
}

/** What the requests take, by turns. */
export async function byTurns(
  peer: Tidegate,
  { rounds, times, before, after }: Turns,
  requests: readonly Request[],
): Promise<readonly Taken[]> {
  const client = new HttpClient(1)
  const milliseconds = requests.map(() => [] as number[])
  const processor = requests.map(() => 0)
  try {
    for (const request of requests) await request(client, 0)
    for (let round = 0; round < rounds; round++) {
      for (let turn = 0; turn < requests.length; turn++) {
        // Another one is first in each round.
        const at = (round + turn) % requests.length
        await before?.(at)
        const sample = await sampled(peer, async () => {
          for (let time = 0; time < times; time++) {
            const sent = await requests[at]?.(client, round * times + time)
            milliseconds[at]?.push(sent?.total ?? NaN)
          }
          await after?.()
          return 0
        })
        processor[at] = (processor[at] ?? 0) + (sample.processor ?? 0)
      }
    }
    return requests.map((_, at) => ({ milliseconds: median(milliseconds[at] ?? []), processor: processor[at] ?? NaN }))
  } finally {
    client.close()
  }
}

/** Seconds of processor time from which it is compared: it has a resolution of 10 ms. */
const enough = 0.2

/** How many times as long the other requests take as the first, by processor time if there is enough of it. */
export function against([first, ...others]: readonly Taken[]): readonly number[] {
  if (first === undefined) return []
  const isEnough = [first, ...others].every(({ processor }) => processor >= enough)
  return others.map((each) => (isEnough ? each.processor / first.processor : each.milliseconds / first.milliseconds))
}
