/** Who may open a session: the methods of RFC 4252, each leading to a Principal or to a refusal. */
import type { AuthContext, AuthenticationType, KeyboardAuthContext, PublicKeyAuthContext } from 'ssh2'
import { CodeRequired } from '../../src/accounts/errors.js'
import { GatewayError } from '../../src/errors.js'
import type { Gateway } from '../../src/gateway.js'
import { holds, type Principal } from '../../src/principal.js'
import { algorithmOf, isProved } from './proof.js'
import { Questions } from './questions.js'

/** What sign-in asks of the gateway. */
export type SignInParts = {
  readonly accounts: Pick<Gateway['accounts'], 'byPassword' | 'byKey' | 'findKey' | 'guest'>
  readonly settings: Pick<Gateway['settings'], 'bool'>
}

/** 'offered': a key that may be used; its signature is still to come. */
export type SignInResult = { readonly principal: Principal } | 'offered'

/** What a client may try, in the order it should. */
export function methodsOf({ settings }: Pick<SignInParts, 'settings'>): AuthenticationType[] {
  return settings.bool('sftp_disable_password_login')
    ? ['publickey']
    : ['publickey', 'keyboard-interactive', 'password']
}

/** Rejects with `unauthenticated`, `denied` or `throttled`. `address`: of the client, without port. */
export async function signIn(parts: SignInParts, context: AuthContext, address: string): Promise<SignInResult> {
  switch (context.method) {
    case 'publickey':
      return byKey(parts, context)
    case 'password': {
      const { username, password } = context
      // A request to change the password comes as an object.
      if (typeof password !== 'string' || !methodsOf(parts).includes('password')) throw refused()
      return admit(await parts.accounts.byPassword({ username, password: { plain: password }, address }, 'sftp'))
    }
    case 'keyboard-interactive':
      if (!methodsOf(parts).includes('keyboard-interactive')) throw refused()
      return byAnswers(parts, context, address)
    case 'none': {
      const principal = parts.accounts.guest('sftp')
      if (principal.username !== context.username) throw refused()
      return admit(principal)
    }
    default:
      throw refused()
  }
}

/** The key is looked up for the client's question, and used only once its signature is proved. */
async function byKey({ accounts }: SignInParts, context: PublicKeyAuthContext): Promise<SignInResult> {
  if (algorithmOf(context) === undefined) throw refused()
  const key = accounts.findKey(context.username, context.key.data)
  if (key?.type !== context.key.algo) throw refused()
  if (!context.signature) return 'offered'
  if (!isProved(context)) throw refused()
  return admit(await accounts.byKey(key, 'sftp'))
}

/**
 * The password, or an app password; then the one-time code where the account has two-step verification. That is asked for only
 * once the password was right, as at every other door, and a wrong code is refused in the words of a wrong password.
 */
async function byAnswers(parts: SignInParts, context: KeyboardAuthContext, address: string): Promise<SignInResult> {
  const { accounts } = parts
  const questions = new Questions(context)
  const plain = await questions.ask('Password: ', { shown: false })
  // The setting may have changed while somebody typed.
  if (!methodsOf(parts).includes('keyboard-interactive')) throw refused()
  const credentials = { username: context.username, password: { plain }, address }
  let principal: Principal
  try {
    principal = await accounts.byPassword(credentials, 'sftp')
  } catch (error) {
    if (!(error instanceof CodeRequired)) throw error
    // Apps show codes in two groups.
    const code = (await questions.ask('One-time code: ', { shown: true })).replaceAll(' ', '')
    principal = await accounts.byPassword({ ...credentials, code }, 'sftp')
  }
  questions.assertStanding()
  return admit(principal)
}

/** What this door refuses by itself. Wrong passwords are none: of those the accounts tell the log. */
export class DoorRefusal extends GatewayError {}

function admit(principal: Principal): SignInResult {
  if (!holds(principal, 'sftpRead')) {
    throw new DoorRefusal('denied', { op: 'sign in', reason: 'this account may not use SFTP' })
  }
  return { principal }
}

function refused(): GatewayError {
  return new DoorRefusal('unauthenticated', { op: 'sign in' })
}
