/** `tidegate check --live`: whether a daemon serves the data folder and is ready, for health checks of containers. */
import { GatewayError } from '../contract/errors.js'
import type { Config } from '../gateway/config.js'
import { lockHolderOf } from '../gateway/data-folder.js'
import { requestDaemon } from './daemon-request.js'
import { finding, type Finding } from './finding.js'

/** Milliseconds for the daemon to answer: with the start of this program it takes at most 5 seconds. */
const answerTimeout = 3000

/**
 * Asks `/readyz` of the daemon of this data folder. Does not open the database, and does not verify the certificate.
 * `timeout`: milliseconds for the daemon to answer.
 */
export function liveness(config: Config, timeout = answerTimeout): Promise<Finding> {
  return finding('daemon', async () => {
    const holder = await lockHolderOf(config.data)
    if (holder === undefined) throw unavailable(`no daemon serves ${config.data}`)
    const { pid, url } = holder
    if (url === undefined) throw unavailable(`process ${pid} serves the data folder, but is not ready yet`)
    const answer = await requestDaemon(config, `${url}/readyz`, { timeout }).catch((error: unknown) => {
      throw unavailable(`process ${pid} serves the data folder, but does not answer at ${url}`, error)
    })
    const { status, body } = answer
    if (status !== 200 || body !== 'ok\n')
      throw unavailable(`process ${pid} at ${url} is not ready: it answers ${status}`)
    return `process ${pid} at ${url} is ready`
  })
}

function unavailable(reason: string, cause?: unknown): GatewayError {
  return new GatewayError('unavailable', { reason, cause })
}
