import js from '@eslint/js'
import tseslint from 'typescript-eslint'

/** Selects what compares an element, or looks it up, in the syntax of `selector`. */
const comparisonsOf = (selector) => [
  `BinaryExpression[operator=/^[!=]==?$/] > ${selector}`,
  `SwitchStatement > ${selector}.discriminant`,
  `MemberExpression[computed=true] > ${selector}.property`,
  `CallExpression[callee.property.name=/^(test|exec|has|get|includes)$/] > ${selector}.arguments`,
]
const message = ':matches(MemberExpression[property.name="message"], Identifier[name="message"])'
const methods = '/^(includes|startsWith|endsWith|match|matchAll|search|indexOf|localeCompare)$/'
/** The message of an error is a text for users, its code is that of several, and the API has a name for each. */
const comparisonsOfErrors = [
  ...comparisonsOf(message),
  `CallExpression > MemberExpression.callee[property.name=${methods}] > ${message}.object`,
  ...comparisonsOf('MemberExpression[property.name="code"]'),
  'BinaryExpression:has(> Literal[raw=/^\\d/]) > Identifier[name="code"]',
].map((selector) => ({ selector, message: 'Compare the name of the failure: error.error.' }))
const numbersAsKeys = {
  selector: 'Property > Literal.key[raw=/^\\d/]',
  message: 'The numbers of the API have names in web/api/schema.ts.',
}
/** What the console has in one place. */
const placesOfTheConsole = [
  { selector: 'Property[key.name="queryKey"] > ArrayExpression', message: 'Keys are in web/api/keys.ts.' },
  { selector: 'CallExpression[callee.property.name=/^toLocale/]', message: 'Formats are in web/texts/format.ts.' },
  { selector: 'ImportSpecifier[imported.name="lazy"]', message: 'Use part() of loaded.tsx: it waits for the texts.' },
]

export default tseslint.config(
  { ignores: ['web/api/schema.ts', 'dist/', 'data/', 'node_modules/', '.tap/', 'build/'] },
  js.configs.recommended,
  {
    files: ['web/*.mjs'],
    languageOptions: { globals: { process: 'readonly', URL: 'readonly' } },
  },
  {
    files: ['**/*.ts', '**/*.tsx'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { project: './tsconfig.json', tsconfigRootDir: import.meta.dirname } },
    rules: {
      'object-shorthand': ['error', 'properties'],
      'no-useless-rename': 'error',
      // Control characters in a pattern are meant: names and headers must not contain them.
      'no-control-regex': 'off',
      'no-restricted-properties': [
        'error',
        {
          object: 'AbortSignal',
          property: 'any',
          message: 'It retains memory for as long as its sources exist: use joinSignals() of src/base/cancellation.ts.',
        },
      ],
      '@typescript-eslint/no-floating-promises': ['error', { ignoreVoid: true }],
      // A name with an underscore says that a part is left out on purpose.
      '@typescript-eslint/no-unused-vars': ['error', { varsIgnorePattern: '^_', argsIgnorePattern: '^_' }],
      // Numbers in messages and labels are meant.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      // Async methods of a contract that have nothing to wait for.
      '@typescript-eslint/require-await': 'off',
      // `while (true)` with a return inside reads better than its alternatives.
      '@typescript-eslint/no-unnecessary-condition': ['error', { allowConstantLoopConditions: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/consistent-type-definitions': 'off',
      '@typescript-eslint/prefer-nullish-coalescing': ['error', { ignorePrimitives: { string: true } }],
    },
  },
  {
    // The console has its own project, because it runs in browsers.
    files: ['web/**/*.ts', 'web/**/*.tsx'],
    languageOptions: { parserOptions: { project: './web/tsconfig.json' } },
    rules: {
      'no-restricted-syntax': ['error', ...comparisonsOfErrors, numbersAsKeys, ...placesOfTheConsole],
    },
  },
  {
    // tap's fluent assertions return values nobody reads.
    files: ['test/**/*.ts'],
    rules: {
      '@typescript-eslint/no-floating-promises': ['error', { ignoreVoid: true }],
      '@typescript-eslint/no-non-null-assertion': 'off',
    },
  },
)
