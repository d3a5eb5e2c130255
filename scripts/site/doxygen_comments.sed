# The comments of a public header as Doxygen reads them.
1i /// \\file
/= delete;|not for users$/d
s|^( *)//   |\1///     |; t
s|^( *)//|\1///|; t
s,([;\,}]) +// ,\1  ///< ,
