/** Style sheets that the bundler takes from the code that needs them. */
declare module '*.css';
