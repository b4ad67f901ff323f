/** The settings of single sign-on and LDAP: what each is, and what a trial has found. */
import { plural } from '../format.ts'

export default {
  signInSettings: {
    aboutSso:
      'People sign in at an identity provider, such as Keycloak, Authentik or GitHub, in place of a password here.',
    aboutLdap:
      'People sign in with the passwords that they have in a directory: OpenLDAP, Active Directory and others.',
    manual: 'How to set it up',
    platforms: {
      OIDC: 'OpenID Connect (Keycloak, Authentik, Authelia …)',
      Github: 'GitHub',
      Google: 'Google',
      Microsoft: 'Microsoft Entra ID',
      Casdoor: 'Casdoor',
    },
    callback: 'Callback URL',
    callbackHelp: 'Register it at the provider, where it is called callback URL or redirect URI.',
    parts: {
      connection: 'Connection',
      people: 'People',
      accounts: 'New accounts',
      groups: 'Groups',
      page: 'Signing in and out',
      other: 'Others',
    },
    secretStored: 'Empty: as it is stored',
    /** The addresses that some providers have in place of an issuer. */
    endpoints: {
      Github: {
        label: 'Address of GitHub Enterprise Server',
        help: 'Only if you run your own, such as https://github.example.org. Empty: github.com.',
      },
      Microsoft: {
        label: 'Tenant',
        help: 'The directory (tenant) ID, on the overview of Microsoft Entra ID. Not “common”.',
      },
      Casdoor: { label: 'Address of Casdoor', help: 'What you open in a browser, such as https://door.example.org.' },
    },
    personName: 'Name to look for',
    personHelp: 'For the test only: the user name of somebody in the directory. Empty: anybody.',
    test: 'Test',
    testing: 'Testing …',
    person: (name: string, groups: number) =>
      groups === 0
        ? `Found: ${name}, in no group.`
        : `Found: ${name}, in ${plural(groups, { one: '# group', other: '# groups' })}:`,
    outcomes: {
      works: 'It works.',
      unconfirmed: 'The provider answers, but does not tell whether the client ID and the secret are right.',
      incomplete: 'A setting is missing, or cannot be used.',
      network_refused:
        'The address is in a network that the server may not reach. Add it to “Networks that users may reach” in the settings of Traffic.',
      certificate:
        'The certificate of the server is not valid. Check the host name. An authority of your own must be known here.',
      silent: 'There is no answer in time. Check the address, and whether a firewall is between.',
      unreachable: 'The server cannot be reached. Check the address and the port, and whether it runs.',
      account_refused: 'It refuses these credentials. Check the ID or DN, and the secret or password.',
      base_missing: 'The search base does not exist, or the account that searches may not see it.',
      nobody_found: 'It answers, but finds nobody. Check the search base and the filter.',
      other_answer: 'Something answers, but not as it should. Check that the address is the right one.',
    },
    saidWith: (text: string, reason: string) => `${text} It says: ${reason}`,
  },
}
