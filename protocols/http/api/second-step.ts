/** The code that an account with two-step verification needs for what then signs in without one. */
import type { Principal } from '../../../src/accounts/principal.js'
import type { Refusal } from './endpoint.js'
import { withResponses } from './errors.js'
import type { Exchange, HttpApi } from './http-api.js'
import { accountChanged, coreRefusal } from './refusals.js'

const codeNeeded: Refusal = {
  code: 400,
  text: 'this needs a code of two-step verification, which is missing, wrong or used: the console asks for it',
  error: 'code_required',
  when:
    'the account has two-step verification, and the session did not begin with a passkey, or at a provider that has ' +
    'asked for two factors',
}

export const secondStepRefusals: readonly Refusal[] = [
  codeNeeded,
  accountChanged,
  coreRefusal('throttled', { detail: 'sign_in_throttled' }, 'too many wrong codes were sent'),
]

/** Rejects with one of `secondStepRefusals`, unless the current user may add a credential. `code`: what was sent. */
export async function assertSecondStep(
  api: HttpApi,
  context: Exchange,
  principal: Principal,
  code: string,
): Promise<void> {
  const { address } = api.clientOf(context.req)
  // Clients treat 401 as an expired session.
  await withResponses({ code_required: codeNeeded, unauthenticated: { code: 400 } }, () =>
    api.gateway.accounts.twoStep.assertSecondStep(principal, { code, address }),
  )
}
