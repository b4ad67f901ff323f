/** Asks the provider of single sign-on and the LDAP directory as a sign-in does, if the settings turn them on. */
import type { Config } from '../../installation/config.js'
import { EgressGuard } from '../../net/egress.js'
import type { Settings } from '../../settings/settings.js'
import { SignInTrials, type Trial } from '../../sign-in/sign-in-trials.js'
import { commandLine, wrong, type Finding } from '../finding.js'

/** The findings on the provider and the directory. Changes nothing. */
export async function signInFindings(config: Config, settings: Settings): Promise<readonly Finding[]> {
  const trials = new SignInTrials(new EgressGuard(() => settings.get('egress_networks')))
  const findings: Finding[] = []
  if (settings.bool('sso_login_enabled')) {
    // No browser is led there.
    const trial = await trials.ofProvider(settings, config.site_url || 'http://localhost/')
    findings.push(findingOf('single sign-on', trial, 'docs/sign-in.md', config))
  }
  if (settings.bool('ldap_login_enabled')) {
    findings.push(findingOf('LDAP', await trials.ofDirectory(settings, ''), 'docs/ldap.md', config))
  }
  return findings
}

/** What each outcome says. Those that have no remedy are those without a fault. */
const texts: Readonly<Record<Trial['outcome'], readonly [detail: string, remedy?: string]>> = {
  works: ['it answers, and accepts the credentials'],
  unconfirmed: ['the provider answers, but does not tell whether it has this client'],
  incomplete: ['a setting is missing, or cannot be used', 'correct the setting'],
  network_refused: ['connections to it are not allowed', 'add its network to egress_networks'],
  certificate: ['its certificate is not valid', 'correct the host name, or let this machine know its authority'],
  silent: ['it does not answer in time', 'check the address, and the firewalls between'],
  unreachable: ['it cannot be reached', 'check the address and the port, and whether it runs'],
  account_refused: ['it refuses the credentials', 'correct the client or the account, and its secret'],
  base_missing: ['the search base is not there, or is not shown', 'correct ldap_user_search_base'],
  nobody_found: ['it answers, but finds nobody', 'correct ldap_user_search_base and ldap_user_search_filter'],
  other_answer: ['it does not answer as it should', 'check the address'],
}

function findingOf(what: string, { outcome, reason }: Trial, page: string, config: Config): Finding {
  const [text, remedy] = texts[outcome]
  const detail = reason === '' ? text : `${text}: ${reason}`
  if (remedy === undefined) return { what, ok: true, detail }
  return wrong(what, detail, `${remedy}, with "${commandLine(config, 'setting', 'set')}" (${page})`)
}
